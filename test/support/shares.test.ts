import { describe, expect, test } from 'vitest'
import type { Run } from './handler-log.ts'
import { crowds, passedOver, rushes } from './shares.ts'

function run(id: string, begin: number, end?: number): Run {
  const times = { begin: BigInt(begin), end: end === undefined ? undefined : BigInt(end) }
  const fate = { returned: true, accepted: true, refused: false }
  return { process: 'p', queue: 'q', id, fence: begin, payloads: [], ...times, ...fate }
}

const second = (n: number) => BigInt(Math.round(n * 1e9))

describe('crowds', () => {
  test('are runs beside as many as there may be, in whatever order they are told', () => {
    const runs = [run('b', 3, 7), run('c', 4, 5), run('a', 1, 6)]
    expect(crowds(runs, 3)).toEqual([])
    expect(crowds(runs, 2)).toMatchObject([{ id: 'c', at: 4n }])
    expect(crowds(runs, 1).map(({ id }) => id)).toEqual(['b', 'c'])
    expect(crowds([run('a', 1, 5), run('b', 5, 6)], 1)).toEqual([])
  })

  test('include runs without an end, until their process was gone', () => {
    const runs = [run('a', 1), run('b', 4, 5)]
    expect(crowds(runs, 1)).toHaveLength(1)
    expect(crowds(runs, 1, { deaths: new Map([['p', 3n]]) })).toEqual([])
  })

  test('leave out runs whose process had been stopped for longer than its lease', () => {
    const freezes = new Map([['p', [[2n, 50n]] as [bigint, bigint][]]])
    const runs = [run('a', 1, 60), { ...run('b', 40, 45), process: 'other' }]
    expect(crowds(runs, 1, { freezes, lease: 10n })).toEqual([])
    expect(crowds(runs, 1, { freezes, lease: 100n })).toHaveLength(1)
  })
})

describe('rushes', () => {
  const claims = (...times: number[]) => times.map((at, n) => ({ id: `${n}`, at: second(at) }))

  test('are more claims than there may be in a window, wherever it begins', () => {
    expect(rushes(claims(0.9, 1.1, 1.8), { jobs: 2, per: 1 })).toMatchObject([
      { id: '2', what: expect.stringContaining('3 claims within 0.9 s') },
    ])
    expect(rushes(claims(1.8, 0.9, 1.1), { jobs: 2, per: 1 })).toMatchObject([{ id: '0' }])
  })

  test('are not as many as there may be', () => {
    expect(rushes(claims(0, 0, 1, 1, 2, 2), { jobs: 2, per: 1 })).toEqual([])
    expect(rushes(claims(0), { jobs: 2, per: 1 })).toEqual([])
  })
})

describe('who is passed over', () => {
  const waits = (...some: [number, number][]) =>
    some.map(([from, to]) => ({ from: second(from), to: second(to) }))
  const times = (...some: number[]) => some.map(second)

  test('waits while others begin, and the seconds count in which they do', () => {
    expect(passedOver(waits([1, 9]), times(9), times(0, 2.5, 2.6, 4.5, 7.2, 9.5))).toEqual({
      from: second(1),
      seconds: 3,
    })
    expect(passedOver(waits([1, 9]), times(9), [])).toMatchObject({ seconds: 0 })
  })

  test('has had no turn meanwhile', () => {
    const others = times(1, 2, 3, 4, 5, 6, 7, 8)
    expect(passedOver(waits([0.5, 8.5]), times(3.2, 4.1), others)).toEqual({ from: second(4.1), seconds: 4 })
  })

  test('waits with one job after the other, without a break', () => {
    const others = times(1, 2, 3, 4, 5, 6, 7, 8)
    expect(passedOver(waits([4, 8.5], [0.5, 5]), [], others)).toMatchObject({ seconds: 8 })
    expect(passedOver(waits([6, 8.5], [0.5, 5]), [], others)).toMatchObject({ seconds: 5 })
  })
})
