import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
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
import { correctHistory, type History } from './history.ts'

const RUNS = 500

/** How often each check finds something. */
function findings({ runs, pushed, dead, ...fates }: History) {
  const count = (check: (queue: string, runs: readonly Run[]) => readonly unknown[]) =>
    [...pushed.keys()].flatMap((name) =>
      check(
        name,
        runs.filter(({ queue }) => queue === name),
      ),
    ).length
  return {
    overlaps: overlaps(runs, fates).length,
    inversions: inversions(runs, Number).length,
    lost: count((queue, some) => lost(some, pushed.get(queue)!, dead.get(queue))),
    vanished: count((queue, some) => vanished(some, dead.get(queue))),
    phantoms: count((queue, some) => phantoms(some, pushed.get(queue)!)),
    repeats: repeats(runs).length,
    stale: staleCompletions(runs).length,
    fences: shrunkFences(runs).length,
  }
}

type Kind = keyof ReturnType<typeof findings>

const failed = { returned: false, accepted: false }
const untold = { accepted: false }

interface Fault {
  /** The checks that must find it, and no others. */
  readonly kinds: readonly Kind[]
  /** What the last two rounds of an id, both completed, are changed into. */
  readonly plant: (first: Run, second: Run) => readonly Run[]
}

/** Above all fences of a history. */
const LATER = 1_000

const again = (run: Run, rest: Partial<Run> = {}): Run => {
  const begin = run.end! + 1n
  return { ...run, fence: run.fence + LATER, begin, end: begin + 1n, ...rest }
}

const FAULTS: Record<string, Fault> = {
  'two rounds at once': {
    kinds: ['overlaps'],
    plant: (first, second) => [first, { ...second, begin: first.end! - 1n }],
  },
  'a round that nobody knows the end of': {
    kinds: ['overlaps'],
    plant: (first, second) => [
      again(first, { end: undefined, ...failed, begin: first.begin - 1n, fence: first.fence - 0.5 }),
      first,
      second,
    ],
  },
  'rounds in the wrong order': {
    kinds: ['inversions'],
    plant: (first, second) => [
      { ...first, payloads: second.payloads },
      { ...second, payloads: first.payloads },
    ],
  },
  'a batch in the wrong order': {
    kinds: ['inversions'],
    plant: (first, second) => [
      { ...first, payloads: [...second.payloads, ...first.payloads] },
      { ...second, payloads: [] },
    ],
  },
  'a payload nobody got': {
    kinds: ['lost'],
    plant: (first, second) => [first, { ...second, payloads: [] }],
  },
  'a payload gone after its round failed': {
    kinds: ['lost', 'vanished'],
    plant: (first, second) => [first, { ...second, ...failed }],
  },
  'a payload gone after a round that repeated it failed': {
    kinds: ['vanished'],
    plant: (first, second) => [first, { ...second, ...untold }, again(second, failed)],
  },
  'a payload of a transaction that was rolled back': {
    kinds: ['phantoms'],
    plant: (first, second) => [first, { ...second, payloads: [...second.payloads, 1_000_000] }],
  },
  'a completion that was not told, and its payloads once more': {
    kinds: ['repeats'],
    plant: (first, second) => [first, { ...second, ...untold }, again(second)],
  },
  'two completions': {
    kinds: ['stale', 'repeats'],
    plant: (first, second) => [first, second, again(second)],
  },
  'a completion after the claim was lost': {
    kinds: ['stale', 'vanished'],
    plant: (first, second) => [first, second, again(second, failed)],
  },
  'a fence below the one before': {
    kinds: ['fences'],
    plant: (first, second) => [first, { ...second, fence: 0 }],
  },
  'a fence given out twice': {
    kinds: ['fences'],
    plant: (first, second) => [first, { ...second, fence: first.fence, process: `not ${first.process}` }],
  },
}

test('a correct history, whatever befell processes, has no findings but the repeats it has', () => {
  fc.assert(
    fc.property(correctHistory, (correct) => {
      const { repeats: again, ...others } = findings(correct)
      expect(Object.entries(others).filter(([, count]) => count > 0)).toEqual([])
      expect(again).toBe(correct.repeats)
      expect(outlived(correct.runs, correct)).toBe(correct.outlived)
    }),
    { numRuns: RUNS },
  )
})

test('a successor beside a process that was stopped is found where nobody knows of the stop', () => {
  fc.assert(
    fc.property(correctHistory, (correct) => {
      const { overlaps: found } = findings({ ...correct, freezes: new Map() })
      const beside = correct.runs.filter(({ refused, queue, id, fence, end }) => {
        const next = correct.runs.find((run) => run.queue === queue && run.id === id && run.fence > fence)
        return refused && next!.begin < end!
      })
      expect(found > 0).toBe(beside.length > 0)
    }),
    { numRuns: RUNS },
  )
})

test.each(Object.entries(FAULTS))('%s: found as such, and as nothing else', (_, { kinds, plant }) => {
  const place = fc.record({ queue: fc.constantFrom('q', 'r'), id: fc.constantFrom('a', 'b') })
  fc.assert(
    fc.property(correctHistory, place, (correct, { queue, id }) => {
      const [first, second] = correct.runs.filter((run) => run.queue === queue && run.id === id).slice(-2)
      const rest = correct.runs.filter((run) => run !== first && run !== second)
      const before = findings(correct)
      const after = findings({ ...correct, runs: [...rest, ...plant(first!, second!)] })
      const changed = (Object.keys(after) as Kind[]).filter((kind) => after[kind] !== before[kind])
      expect(changed.sort()).toEqual([...kinds].sort())
    }),
    { numRuns: RUNS / 5 },
  )
})
