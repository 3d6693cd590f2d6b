import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Fates,
  inversions,
  lost,
  outlived,
  overlaps,
  phantoms,
  repeats,
  shrunkFences,
  staleCompletions,
} from './checker.ts'
import type { Run } from './handler-log.ts'

const order = (payload: unknown) => payload as number
let fences = 0

/** A round that was completed, unless told otherwise. */
function run(begin: number, end: number | undefined, payloads: number[], rest: Partial<Run> = {}): Run {
  fences += 1
  const ended = end !== undefined
  const times = { begin: BigInt(begin), end: ended ? BigInt(end) : undefined }
  const fate = { returned: ended, accepted: ended }
  return { process: 'p', queue: 'q', id: 'a', fence: fences, payloads, ...times, ...fate, ...rest }
}

const unheard = { accepted: false }
const failed = { returned: false, accepted: false }

describe('P1 overlaps', () => {
  test('are two runs of one id at the same time, and no others', () => {
    expect(overlaps([run(1, 5, [1]), run(4, 6, [2])])).toMatchObject([{ id: 'a', at: 4n }])
    expect(overlaps([run(1, 5, [1]), run(4, 6, [2], { id: 'b' })])).toEqual([])
    expect(overlaps([run(1, 5, [1]), run(5, 6, [2])])).toEqual([])
  })

  test('are seen inside a run that is not the last before', () => {
    expect(overlaps([run(1, 10, [1]), run(2, 3, [2]), run(8, 9, [3])])).toHaveLength(2)
  })

  test('a run without an end lasts until its process was gone', () => {
    const runs = [run(1, undefined, [1]), run(4, 6, [1], { process: 'q' })]
    expect(overlaps(runs)).toHaveLength(1)
    expect(overlaps(runs, { deaths: new Map([['p', 5n]]) })).toHaveLength(1)
    expect(overlaps(runs, { deaths: new Map([['p', 3n]]) })).toEqual([])
  })

  test('a run whose process was stopped for longer than the lease lasts until then, and outlives it after', () => {
    const runs = [run(1, 21, [1], failed), run(14, 16, [1], { process: 'q' })]
    const stopped = (from: bigint, to: bigint): Fates => ({
      lease: 10n,
      freezes: new Map([['p', [[from, to]]]]),
    })
    expect(overlaps(runs, stopped(3n, 20n))).toEqual([])
    expect(outlived(runs, stopped(3n, 20n))).toBe(1n)
    expect(overlaps(runs, stopped(12n, 20n))).toHaveLength(1)
    expect(outlived(runs, stopped(12n, 20n))).toBe(0n)
    expect(overlaps(runs, { lease: 10n })).toHaveLength(1)
  })

  test('a run that began after its process went on has no excuse', () => {
    const runs = [run(21, 25, [1]), run(22, 23, [2], { process: 'q' })]
    expect(overlaps(runs, { lease: 10n, freezes: new Map([['p', [[3n, 20n]]]]) })).toHaveLength(1)
  })
})

describe('P2 inversions', () => {
  test('are payloads out of order in a batch, and after a higher one that was completed', () => {
    expect(inversions([run(1, 2, [1, 3, 2])], order)).toMatchObject([
      { what: expect.stringMatching('2 after 3') },
    ])
    expect(inversions([run(1, 2, [3]), run(3, 4, [2])], order)).toHaveLength(1)
    expect(inversions([run(1, 2, [3]), run(3, 4, [2], { id: 'b' })], order)).toEqual([])
  })

  test('what comes again after a failure, or a completion that was never told, is none', () => {
    expect(inversions([run(1, 2, [2, 3], failed), run(3, 4, [1, 2, 3])], order)).toEqual([])
    expect(inversions([run(1, 2, [2, 3], unheard), run(3, 4, [2, 3])], order)).toEqual([])
  })
})

describe('P3 lost payloads, P4 phantoms and repeats', () => {
  const pushed = new Map([['a', [1, 2]]])

  test('lost is what no handler that returned has had', () => {
    expect(lost([run(1, 2, [1])], pushed)).toEqual(['a: 2'])
    expect(lost([run(1, 2, [1, 2], failed)], pushed)).toEqual(['a: 1', 'a: 2'])
    expect(lost([run(1, 2, [1, 2], { id: 'b' })], pushed)).toHaveLength(2)
    expect(lost([run(1, 2, [1]), run(3, 4, [2])], pushed)).toEqual([])
  })

  test('a phantom is what nobody has pushed to the id', () => {
    expect(phantoms([run(1, 2, [1, 3])], pushed)).toMatchObject([{ what: '3 was never pushed' }])
    expect(phantoms([run(1, 2, [1], { id: 'b' })], pushed)).toHaveLength(1)
    expect(phantoms([run(1, 2, [1, 2])], pushed)).toEqual([])
  })

  test('a repeat is what two handlers had and returned', () => {
    expect(repeats([run(1, 2, [1, 2]), run(3, 4, [2])])).toEqual(['a: 2'])
    expect(repeats([run(1, 2, [1], failed), run(3, 4, [1])])).toEqual([])
  })
})

describe('P6 stale completions and fences', () => {
  test('a completion is stale when somebody else had a part of it under a higher fence', () => {
    const [first, second] = [run(1, 9, [1, 2]), run(4, 6, [2, 3])]
    expect(staleCompletions([first, second])).toMatchObject([{ id: 'a', at: 4n }])
    expect(staleCompletions([{ ...first, accepted: false }, second])).toEqual([])
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [2])])).toEqual([])
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [1], { id: 'b' })])).toEqual([])
  })

  test('so are two completions of one payload, in whatever order', () => {
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [1])])).toHaveLength(1)
  })

  test('fences of an id only grow', () => {
    expect(shrunkFences([run(1, 2, [1], { fence: 2 }), run(3, 4, [2], { fence: 2 })])).toHaveLength(1)
    expect(shrunkFences([run(1, 2, [1], { fence: 2 }), run(3, 4, [2], { fence: 1 })])).toHaveLength(1)
    expect(shrunkFences([run(1, 2, [1], { fence: 2 }), run(3, 4, [2], { fence: 1, id: 'b' })])).toEqual([])
  })
})

/** Rounds of one id, one after the other: each takes some of what is left, and some fail, or die unheard of. */
const history = fc
  .array(
    fc.record({ take: fc.integer({ min: 1, max: 4 }), fate: fc.constantFrom('completed', 'failed', 'died') }),
    {
      minLength: 2,
      maxLength: 20,
    },
  )
  .map((steps) => {
    const runs: Run[] = []
    let next = 1
    let highest = 1
    steps.forEach(({ take, fate }, step) => {
      const payloads = Array.from({ length: take }, (_, index) => next + index)
      highest = Math.max(highest, ...payloads)
      const process = `p${step}`
      const begin = step * 10
      if (fate === 'completed') next += take
      const end = fate === 'died' ? undefined : begin + 5
      runs.push(run(begin, end, payloads, fate === 'failed' ? { process, ...failed } : { process }))
    })
    const all = Array.from({ length: Math.max(highest, next) }, (_, index) => index + 1)
    runs.push(run(steps.length * 10, steps.length * 10 + 5, all.slice(next - 1)))
    const deaths = new Map(runs.map(({ process, begin }) => [process, begin + 5n]))
    return { runs, deaths, pushed: new Map([['a', all]]) }
  })

type History = ReturnType<typeof history.generate>['value']

function findings({ runs, deaths, pushed }: History) {
  return {
    overlaps: overlaps(runs, { deaths }).length,
    inversions: inversions(runs, order).length,
    lost: lost(runs, pushed).length,
    phantoms: phantoms(runs, pushed).length,
    repeats: repeats(runs).length,
    stale: staleCompletions(runs).length,
    fences: shrunkFences(runs).length,
  }
}

const NONE = { overlaps: 0, inversions: 0, lost: 0, phantoms: 0, repeats: 0, stale: 0, fences: 0 }

describe('any history', () => {
  test('that is correct has no findings', () => {
    fc.assert(
      fc.property(history, (correct) => {
        expect(findings(correct)).toEqual(NONE)
      }),
    )
  })

  test('with one fault in it has that finding', () => {
    const plant: Record<string, (correct: History) => History> = {
      overlaps: (correct) => changeLast(correct, ({ begin, ...rest }) => ({ ...rest, begin: begin - 6n })),
      inversions: (correct) => changeLast(correct, (last) => ({ ...last, payloads: [...last.payloads, 0] })),
      lost: (correct) => changeLast(correct, (last) => ({ ...last, ...failed })),
      phantoms: (correct) => changeLast(correct, (last) => ({ ...last, payloads: [...last.payloads, 1e9] })),
      fences: (correct) => changeLast(correct, (last) => ({ ...last, fence: 0 })),
      stale: (correct) => again(correct),
      repeats: (correct) => again(correct),
    }
    fc.assert(
      fc.property(history, fc.constantFrom(...Object.keys(plant)), (correct, kind) => {
        expect(findings(plant[kind]!(correct))).toMatchObject({ [kind]: expect.toSatisfy((n) => n > 0) })
      }),
    )
  })
})

function changeLast(correct: History, change: (last: Run) => Run): History {
  return { ...correct, runs: [...correct.runs.slice(0, -1), change(correct.runs.at(-1)!)] }
}

/** What was completed last is handed over once more. */
function again(correct: History): History {
  const last = correct.runs.at(-1)!
  const begin = Number(last.end!) + 1
  return { ...correct, runs: [...correct.runs, run(begin, begin + 1, last.payloads as number[])] }
}
