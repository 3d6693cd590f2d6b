import { describe, expect, test } from 'vitest'
import {
  beganAtStop,
  type Fates,
  inversions,
  lost,
  outlived,
  overlaps,
  phantoms,
  repeats,
  shrunkFences,
  staleCompletions,
  vanished,
} from './checker.ts'
import type { Run } from './handler-log.ts'

const order = (payload: unknown) => payload as number
let fences = 0

/** A round, completed by default. */
function run(begin: number, end: number | undefined, payloads: unknown[], rest: Partial<Run> = {}): Run {
  fences += 1
  const ended = end !== undefined
  const times = { begin: BigInt(begin), end: ended ? BigInt(end) : undefined }
  const fate = { returned: ended, accepted: ended, refused: false }
  return { process: 'p', queue: 'q', id: 'a', fence: fences, payloads, ...times, ...fate, ...rest }
}

const unheard = { accepted: false }
const failed = { returned: false, accepted: false }
const elsewhere = { queue: 'r' }
const stopped = (from: number, to: number, lease = 10n): Fates => ({
  lease,
  freezes: new Map([['p', [[BigInt(from), BigInt(to)]]]]),
})
const died = (at: number) => new Map([['p', BigInt(at)]])

describe('P1 overlaps', () => {
  test('are two runs of one id at the same time, and no others', () => {
    const [first, second] = [run(1, 5, [1]), run(4, 6, [2])]
    expect(overlaps([first, second])).toEqual([
      { queue: 'q', id: 'a', at: 4n, what: expect.stringContaining('beside'), runs: [second, first] },
    ])
    expect(overlaps([run(1, 5, [1]), run(4, 6, [2], { id: 'b' })])).toEqual([])
    expect(overlaps([run(1, 5, [1]), run(4, 6, [2], elsewhere)])).toEqual([])
    expect(overlaps([run(1, 5, [1]), run(5, 6, [2])])).toEqual([])
  })

  test('are seen inside a run that is not the last before, and in whatever order runs are told', () => {
    expect(overlaps([run(1, 10, [1]), run(2, 3, [2]), run(8, 9, [3])])).toHaveLength(2)
    expect(overlaps([run(4, 6, [2]), run(1, 5, [1])])).toHaveLength(1)
    expect(overlaps([run(5, 6, [2]), run(1, 5, [1])])).toEqual([])
  })

  test('a run without an end lasts until its process was gone', () => {
    const runs = [run(1, undefined, [1]), run(4, 6, [1], { process: 'q' })]
    expect(overlaps(runs)).toHaveLength(1)
    expect(overlaps(runs, { deaths: died(5) })).toHaveLength(1)
    expect(overlaps(runs, { deaths: died(3) })).toEqual([])
  })

  test('who died before the run began was another process of that name', () => {
    const runs = [run(4, undefined, [1]), run(5, 6, [1], { process: 'q' })]
    expect(overlaps(runs, { deaths: died(3) })).toHaveLength(1)
    expect(outlived(runs, { ...stopped(5, 20), deaths: died(3) })).toBe(0n)
  })

  test('a run whose process was stopped for longer than the lease lasts until then, and outlives it after', () => {
    const runs = [run(1, 21, [1], failed), run(14, 16, [1], { process: 'q' })]
    expect(overlaps(runs, stopped(3, 20))).toEqual([])
    expect(outlived(runs, stopped(3, 20))).toBe(1n)
    expect(overlaps(runs, stopped(12, 20))).toHaveLength(1)
    expect(outlived(runs, stopped(12, 20))).toBe(0n)
    expect(overlaps(runs, { lease: 10n })).toHaveLength(1)
    expect(overlaps(runs, { ...stopped(3, 20), lease: undefined })).toHaveLength(1)
  })

  test('between the time noted and the signal a process still works', () => {
    const successor = run(14, 16, [1], { process: 'q' })
    // Begun just before the process really stopped.
    expect(overlaps([run(4, 21, [1], failed), successor], stopped(3, 20))).toEqual([])
    expect(outlived([run(4, 21, [1], failed)], stopped(3, 20))).toBe(1n)
    // Ended just before, so the process was not stopped during this run.
    expect(overlaps([run(1, 5, [1]), run(4, 6, [2], { process: 'q' })], stopped(3, 20))).toHaveLength(1)
  })

  test('a process that is killed while it is stopped has lasted until it was', () => {
    const runs = [run(1, undefined, [1]), run(14, 16, [1], { process: 'q' })]
    expect(overlaps(runs, { ...stopped(3, 20), deaths: died(18) })).toEqual([])
    expect(outlived(runs, { ...stopped(3, 20), deaths: died(18) })).toBe(0n)
    expect(outlived(runs, { ...stopped(3, 20), deaths: died(22) })).toBe(2n)
  })

  test('a run that began after its process went on has no excuse', () => {
    const runs = [run(21, 25, [1]), run(22, 23, [2], { process: 'q' })]
    expect(overlaps(runs, stopped(3, 20))).toHaveLength(1)
    expect(outlived(runs, stopped(3, 20))).toBe(0n)
  })
})

describe('a run that began in the same instant its process was stopped', () => {
  const MS = 1_000_000
  const stop = stopped(100 * MS, 200 * MS, BigInt(50 * MS))
  const late = (begin: number, asked: number | undefined, rest: Partial<Run> = {}) =>
    run(begin, begin + 5, [1], { ...failed, ...(asked !== undefined && { asked: BigInt(asked) }), ...rest })

  test('had asked for its lease right before the stop, and began when its process went on', () => {
    const first = late(200 * MS + 7, 100 * MS + 3)
    expect(beganAtStop([first, late(90 * MS, 90 * MS - 3)], stop)).toEqual([
      { queue: 'q', id: 'a', at: first.begin, what: expect.stringContaining('same instant'), runs: [first] },
    ])
    // On a busy machine, the process may have waited before the stop, or the signal may have come late after its note.
    for (const asked of [90 * MS, 110 * MS])
      expect(beganAtStop([late(200 * MS + 7, asked)], stop)).toHaveLength(1)
  })

  test.each<[string, Run, Fates]>([
    ['one that asked when its process went on', late(200 * MS + 7, 200 * MS + 3), stop],
    ['one that never asked', late(200 * MS + 7, undefined), stop],
    ['one that began before its process went on', late(150 * MS, 100 * MS), stop],
    ['one of another process', late(200 * MS + 7, 100 * MS, { process: 'q' }), stop],
    [
      'one whose process was stopped for less than its lease',
      late(200 * MS + 7, 100 * MS),
      { ...stop, lease: BigInt(100 * MS) },
    ],
    ['one whose process was never stopped', late(200 * MS + 7, 100 * MS), { lease: 10n }],
  ])('is not %s', (_, other, fates) => {
    expect(beganAtStop([other], fates)).toEqual([])
  })
})

describe('P2 inversions', () => {
  test('are payloads out of order in a batch, and after a higher one that was completed', () => {
    const what = expect.stringMatching('2 after 3')
    const [first, second] = [run(1, 2, [3]), run(3, 4, [2])]
    expect(inversions([run(1, 2, [1, 3, 2])], order)).toMatchObject([{ what, runs: [{ begin: 1n }] }])
    expect(inversions([first, second], order)).toMatchObject([{ what, runs: [second, first] }])
    expect(inversions([run(1, 2, [3]), run(3, 4, [2], { id: 'b' })], order)).toEqual([])
    expect(inversions([run(1, 2, [3]), run(3, 4, [2], elsewhere)], order)).toEqual([])
  })

  test('a lower completion after a higher one does not hide the higher', () => {
    const [highest, low, later] = [run(1, 2, [5]), run(3, 4, [1]), run(5, 6, [3])]
    expect(inversions([highest, low, later], order)).toMatchObject([
      { runs: [low, highest] },
      { runs: [later, highest] },
    ])
  })

  test('what comes again after a failure, or a completion that was never told, is none', () => {
    expect(inversions([run(1, 2, [2, 3], failed), run(3, 4, [1, 2, 3])], order)).toEqual([])
    expect(inversions([run(1, 2, [2, 3], unheard), run(3, 4, [2, 3])], order)).toEqual([])
    expect(inversions([run(1, 2, [1, 2]), run(3, 4, [3]), run(5, 6, [4, 5])], order)).toEqual([])
  })
})

describe('P3 lost and vanished payloads, P4 phantoms, and repeats', () => {
  const pushed = new Map([['a', [1, 2]]])

  test('lost is what no handler that returned has had', () => {
    expect(lost([], pushed)).toEqual(['a: 1', 'a: 2'])
    expect(lost([run(1, 2, [1])], pushed)).toEqual(['a: 2'])
    expect(lost([run(1, 2, [1, 2], failed)], pushed)).toEqual(['a: 1', 'a: 2'])
    expect(lost([run(1, 2, [1, 2], { id: 'b' })], pushed)).toHaveLength(2)
    expect(lost([run(1, 2, ['1', '2'])], pushed)).toHaveLength(2)
    expect(lost([run(1, 2, [1]), run(3, 4, [2])], pushed)).toEqual([])
  })

  test('the dead are not lost', () => {
    expect(lost([run(1, 2, [1])], pushed, new Map([['a', [2]]]))).toEqual([])
    expect(lost([run(1, 2, [1])], pushed, new Map([['b', [2]]]))).toEqual(['a: 2'])
  })

  test('vanished is what failed last, or died with its process, and is not in the morgue', () => {
    const dies = [run(1, 2, [1], failed), run(3, undefined, [1, 2])]
    expect(vanished(dies)).toMatchObject([{ at: 3n }, { at: 3n }])
    expect(vanished(dies, new Map([['a', [1]]]))).toMatchObject([{ what: expect.stringMatching('^2 of') }])
    expect(vanished([...dies, run(5, 6, [1, 2])])).toEqual([])
    expect(vanished([...dies, run(5, 6, [1, 2], unheard)])).toEqual([])
    expect(vanished([run(1, 2, [1], unheard), run(3, 4, [1], failed)])).toHaveLength(1)
    expect(vanished([run(1, 2, [1], failed), run(3, 4, [1], { id: 'b' })])).toHaveLength(1)
  })

  test('what a stopped process had is not vanished when its successor, begun before or after, has had it', () => {
    const successor = run(14, 16, [1], { process: 'q', fence: 1_000 })
    expect(vanished([run(1, 21, [1], { ...failed, refused: true }), successor])).toEqual([])
    expect(vanished([run(15, 21, [1], { ...failed, refused: true }), successor])).toEqual([])
  })

  test('a phantom is what nobody has pushed to the id', () => {
    expect(phantoms([run(1, 2, [1, 3])], pushed)).toMatchObject([{ what: '3 was never pushed' }])
    expect(phantoms([run(1, 2, [1], { id: 'b' })], pushed)).toHaveLength(1)
    expect(phantoms([run(1, 2, [1, 2])], pushed)).toEqual([])
  })

  test('a repeat is what two handlers had and returned', () => {
    const [first, second, third] = [run(1, 2, [1, 2]), run(3, 4, [2]), run(5, 6, [2])]
    expect(repeats([first, second, third])).toMatchObject([
      { id: 'a', at: 5n, what: '2: 3 times', runs: [third, first, second] },
    ])
    expect(repeats([run(1, 2, [1], failed), run(3, 4, [1])])).toEqual([])
    expect(repeats([run(1, undefined, [1]), run(3, 4, [1])])).toEqual([])
    expect(repeats([run(1, 2, [1]), run(3, 4, [1], elsewhere)])).toEqual([])
  })

  test('an object’s members have no order', () => {
    const given = [run(1, 2, [{ id: 1, of: { a: 1, b: 2 } }])]
    const told = new Map([['a', [{ of: { b: 2, a: 1 }, id: 1 }]]])
    expect(lost(given, told)).toEqual([])
    expect(phantoms(given, told)).toEqual([])
    expect(phantoms([run(1, 2, [{ id: 1, of: { a: 2, b: 1 } }])], told)).toHaveLength(1)
  })

  test('payloads told by id alone need runs of one queue', () => {
    const runs = [run(1, 2, [1]), run(3, 4, [2], elsewhere)]
    for (const check of [lost, phantoms]) expect(() => check(runs, pushed)).toThrow('of q and r')
    expect(() => vanished(runs)).toThrow('of q and r')
  })
})

describe('P6 stale completions and fences', () => {
  test('a completion is stale when somebody else had a part of it under a higher fence', () => {
    const [first, second] = [run(1, 9, [1, 2]), run(4, 6, [2, 3], { process: 'q', ...failed })]
    expect(staleCompletions([first, second])).toMatchObject([{ id: 'a', at: 4n, runs: [first, second] }])
    expect(staleCompletions([{ ...first, accepted: false, refused: true }, second])).toEqual([])
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [2])])).toEqual([])
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [1], { id: 'b' })])).toEqual([])
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [1], elsewhere)])).toEqual([])
  })

  test('so are two completions of one payload, in whatever order', () => {
    expect(staleCompletions([run(1, 2, [1]), run(3, 4, [1])])).toHaveLength(1)
    expect(staleCompletions([run(3, 4, [1]), run(1, 2, [1])])).toHaveLength(1)
  })

  test('a round that is performed again and then completed is not', () => {
    expect(staleCompletions([run(1, 2, [1], failed), run(3, 4, [1])])).toEqual([])
    expect(staleCompletions([run(1, 2, [1], unheard), run(3, 4, [1])])).toEqual([])
  })

  test('fences of an id only grow', () => {
    const fenced = (fence: number, rest: Partial<Run> = {}) => run(fence, fence + 1, [1], { fence, ...rest })
    expect(shrunkFences([fenced(2), run(3, 4, [2], { fence: 2 })])).toHaveLength(1)
    expect(shrunkFences([fenced(2), run(3, 4, [2], { fence: 1 })])).toMatchObject([{ at: 3n }])
    expect(shrunkFences([fenced(2), run(3, 4, [2], { fence: 1, id: 'b' })])).toEqual([])
    expect(shrunkFences([fenced(2), run(3, 4, [2], { fence: 1, ...elsewhere })])).toEqual([])
    expect(shrunkFences([fenced(3), fenced(2)])).toEqual([])
  })

  test('but where a process performs a round again whose transaction could not be committed', () => {
    const first = run(2, 3, [1], { fence: 2, ...failed })
    const again = (rest: Partial<Run> = {}) => run(4, 5, [1], { fence: 2, ...rest })
    expect(shrunkFences([first, again()])).toEqual([])
    expect(shrunkFences([first, again({ process: 'q' })])).toHaveLength(1)
    expect(shrunkFences([first, again({ begin: 2n })])).toHaveLength(1)
    expect(shrunkFences([{ ...first, accepted: true }, again()])).toHaveLength(1)
    expect(shrunkFences([{ ...first, end: undefined }, again()])).toHaveLength(1)
  })
})
