import { describe, expect, test } from 'vitest'
import { type Applied, type Evidence, judge } from '../../src/cli/demo/judge.ts'
import { faultsOf } from '../../src/cli/demo/verdict.ts'

/** Versions 1 to 3 of one order, sent at 10, 20 and 30. Version 3 came after the first run had been claimed. */
const HONEST: Evidence = {
  sent: [sent(2, 10), sent(1, 20), sent(3, 30)],
  rolledBack: [update(4)],
  applied: [applied(1, 'first', 25), applied(2, 'first', 25), applied(3, 'second', 45)],
  waiting: [],
  runs: [run(26, 40), run(46, 50)],
  setbacks: 0,
  final: new Map([['order', 3]]),
  counted: new Map([['order', 3]]),
}

describe('the judge', () => {
  test('finds nothing where nothing is wrong', () => {
    const verdict = judge(HONEST)
    expect(verdict).toMatchObject({ sent: 3, rolledBack: 1, applied: 3, waiting: 0, late: 0 })
    expect(verdict.merged).toEqual({ average: 1.5, most: 2 })
    expect(faultsOf(verdict)).toBe(0)
  })

  test('counts what was committed and never applied as lost', () => {
    const [first, second] = HONEST.applied
    expectFaults({ applied: [first!, second!], final: new Map([['order', 2]]) }, { lost: 1, outdated: 1 })
  })

  test('tells what still waits from what is lost', () => {
    const [first, second] = HONEST.applied
    const evidence = { applied: [first!, second!], waiting: [update(3)] }
    expectFaults(evidence, { lost: 0 })
    expect(judge({ ...HONEST, ...evidence }).waiting).toBe(1)
  })

  test('counts what was applied twice', () => {
    expectFaults({ applied: [...HONEST.applied, applied(3, 'third', 60)] }, { appliedTwice: 1 })
  })

  test('finds what was rolled back and yet applied, or yet queued', () => {
    expectFaults({ applied: [...HONEST.applied, applied(4, 'third', 60)] }, { traces: 1 })
    expectFaults({ waiting: [update(4)] }, { traces: 1 })
  })

  test('finds a domain row without its event, and an event without its domain row', () => {
    expectFaults({ counted: new Map([['order', 4]]) }, { traces: 1 })
    expectFaults({ counted: new Map() }, { traces: 3 })
    expectFaults({ counted: new Map([...HONEST.counted, ['other', 1]]) }, { traces: 1 })
  })

  test('a newer one first is out of order where the older one had been committed before it was taken', () => {
    expectFaults({ applied: inTurn([2, 25], [1, 45], [3, 55]) }, { outOfOrder: 1 })
  })

  test('a newer one first is nobody’s fault where the older one was committed later', () => {
    const evidence = { applied: inTurn([2, 15], [1, 45], [3, 55]) }
    expectFaults(evidence, { outOfOrder: 0 })
    expect(judge({ ...HONEST, ...evidence }).late).toBe(1)
  })

  test('a newer one before an older one is out of order within one run, whenever they were committed', () => {
    expectFaults(
      { applied: [applied(2, 'first', 15), applied(1, 'first', 15), HONEST.applied[2]!] },
      { outOfOrder: 1 },
    )
  })

  test('any newer one counts, not the one right before', () => {
    expectFaults({ applied: inTurn([3, 35], [2, 45], [1, 55]) }, { outOfOrder: 2 })
  })

  test('orders do not count against each other', () => {
    const other = { ...update(9), order: 'other' }
    expectFaults(
      {
        sent: [{ ...other, committedAt: 5 }, ...HONEST.sent],
        applied: [{ ...other, run: 'zero', takenAt: 100 }, ...HONEST.applied],
        final: new Map([...HONEST.final, ['other', 9]]),
        counted: new Map([...HONEST.counted, ['other', 1]]),
        runs: [...HONEST.runs, { orders: ['other'], begin: 30, end: 60 }],
      },
      {},
    )
  })

  test('counts runs that began while another one had the order, whichever was noted first', () => {
    expectFaults({ runs: [run(46, 50), run(26, 48)] }, { overlaps: 1 })
    expectFaults({ runs: [run(10, 90), run(20, 30), run(40, 50)] }, { overlaps: 2 })
    expectFaults({ runs: [run(10, 20), run(20, 30)] }, { overlaps: 0 })
  })

  test('an order in several batches is found too', () => {
    const runs = [
      { orders: ['a', 'order'], begin: 10, end: 30 },
      { orders: ['order', 'b'], begin: 20, end: 40 },
    ]
    expectFaults({ runs }, { overlaps: 1 })
  })

  test('counts old data over new, and orders that ended on it', () => {
    expectFaults({ setbacks: 2 }, { setbacks: 2 })
    expectFaults({ setbacks: 1, final: new Map([['order', 2]]) }, { setbacks: 1, outdated: 1 })
    expectFaults({ final: new Map() }, { outdated: 1 })
  })
})

type Faults = Partial<ReturnType<typeof judge>>

/** Expects exactly these faults. */
function expectFaults(evidence: Partial<Evidence>, faults: Faults): void {
  const none = { lost: 0, appliedTwice: 0, traces: 0, outOfOrder: 0, overlaps: 0, setbacks: 0, outdated: 0 }
  expect(judge({ ...HONEST, ...evidence })).toMatchObject({ ...none, ...faults })
}

function update(version: number) {
  return { order: 'order', version }
}

function sent(version: number, committedAt: number) {
  return { ...update(version), committedAt }
}

function applied(version: number, run: string, takenAt: number): Applied {
  return { ...update(version), run, takenAt }
}

/** Each in its own run. */
function inTurn(...runs: readonly (readonly [version: number, takenAt: number])[]): Applied[] {
  return runs.map(([version, takenAt], index) => applied(version, `run ${index}`, takenAt))
}

function run(begin: number, end: number) {
  return { orders: ['order'], begin, end }
}
