import { expect, test } from 'vitest'
import type { ProcessSight } from '../../src/store/process.ts'
import { ringOf, untilTurn } from '../../src/worker/assignment/watch.ts'

const REBALANCE_INTERVAL = 500
const NOTHING = { own: false, hears: true }
/** Some moment of the server's clock. */
const NOW = 1_536_323_288_123.4

/** When the processes of a ring, except the dead ones, compare within this many rebalance intervals from NOW on. */
function turns(size: number, intervals: number, dead: readonly number[] = []): number[] {
  const times: number[] = []
  for (let place = 0; place < size; place += 1) {
    if (dead.includes(place)) continue
    for (let now = NOW; ; ) {
      now += untilTurn(REBALANCE_INTERVAL, { size, place }, NOTHING, now)
      if (now > NOW + intervals * REBALANCE_INTERVAL) break
      times.push(now)
    }
  }
  return times.sort((one, other) => one - other)
}

/** The longest time from NOW to the first turn, or between turns, in rebalance intervals. */
function longestGap(times: readonly number[]): number {
  const gaps = times.map((time, index) => time - (times[index - 1] ?? NOW))
  return Math.max(...gaps) / REBALANCE_INTERVAL
}

const sight = (processId: number, rest: Partial<ProcessSight> = {}): ProcessSight => ({
  processId,
  queues: [],
  quiet: false,
  renewal: '',
  lease: 10_000,
  connected: true,
  overdue: false,
  request: null,
  ...rest,
})

const RINGS = [1, 2, 3, 4, 7, 10, 11, 12, 40]

test.each(RINGS)('of %i processes one compares at least once a rebalance interval', (size) => {
  expect(longestGap(turns(size, 50))).toBeLessThanOrEqual(1.1)
})

test.each(RINGS.slice(1))(
  'of %i processes one may die, and there is one that compares in two rebalance intervals',
  (size) => {
    for (let dead = 0; dead < size; dead += 1)
      expect(longestGap(turns(size, 50, [dead]))).toBeLessThanOrEqual(2.1)
  },
)

test.each(RINGS.slice(2))(
  'of %i processes k may die at once, and one compares in k + 1 rebalance intervals, or ten',
  (size) => {
    for (let deaths = 2; deaths < size; deaths += 1) {
      const dead = Array.from({ length: deaths }, (_, place) => place)
      expect(longestGap(turns(size, 50, dead))).toBeLessThanOrEqual(Math.min(deaths + 1, 10) + 0.1)
    }
  },
)

test.each(RINGS.slice(2))(
  '%i processes compare together no more often than two, or each every tenth rebalance interval',
  (size) => {
    const perInterval = turns(size, 200).length / 200
    expect(perInterval).toBeLessThanOrEqual(Math.max(2, size / 10) + 0.1)
  },
)

test('a timer that is early does not make a process compare twice', () => {
  const ring = { size: 4, place: 2 }
  const turn = NOW + untilTurn(REBALANCE_INTERVAL, ring, NOTHING, NOW)
  expect(untilTurn(REBALANCE_INTERVAL, ring, NOTHING, turn - 2)).toBeCloseTo(3 * REBALANCE_INTERVAL + 2)
})

test('who has something of its own pending, hears nobody, or is not there, compares at each comparison', () => {
  const ring = { size: 12, place: 3 }
  expect(untilTurn(REBALANCE_INTERVAL, ring, { own: true, hears: true }, NOW)).toBe(REBALANCE_INTERVAL)
  expect(untilTurn(REBALANCE_INTERVAL, ring, { own: false, hears: false }, NOW)).toBe(REBALANCE_INTERVAL)
  expect(untilTurn(REBALANCE_INTERVAL, { size: 12, place: -1 }, NOTHING, NOW)).toBe(REBALANCE_INTERVAL)
})

test('turns are shared by those that are connected and not quiet', () => {
  const processes = [sight(2, { connected: false }), sight(3), sight(5, { quiet: true }), sight(8)]
  expect(ringOf(processes, 8)).toEqual({ size: 2, place: 1 })
  expect(ringOf(processes, 5)).toEqual({ size: 2, place: -1 })
})
