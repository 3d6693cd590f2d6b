import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'], now: 0 })
})
afterEach(() => {
  vi.useRealTimers()
})

const AHEAD = 1_000_000

/** A server whose clock is `AHEAD` µs ahead carries out a statement; times in ms of ours. */
function compare(
  clock: ServerClock,
  [askedAt, began, ended, answeredAt]: [number, number, number, number],
  ahead = AHEAD,
): void {
  clock.compare({ began: began * 1000 + ahead, ended: ended * 1000 + ahead }, askedAt, answeredAt)
}

/** µs by which the clock is ahead of the server's, once rounded to 50. */
const lead = (clock: ServerClock, ahead = AHEAD) =>
  Math.round((clock.now() - (performance.now() * 1000 + ahead)) / 50) * 50

test('P8: a claim that is asked for when a job is due arrives when it is, however long statements take', () => {
  const clock = new ServerClock()
  compare(clock, [10, 10.1, 500, 500.1])
  expect(lead(clock)).toBe(100)
  vi.advanceTimersByTime(1_000)
  expect(lead(clock)).toBe(100)
})

test('P8: a slow login or answer takes nothing from what was known better', () => {
  const clock = new ServerClock()
  compare(clock, [0, 40, 41, 42])
  expect(lead(clock)).toBe(19_700)
  compare(clock, [100, 100.1, 101, 101.1])
  expect(lead(clock)).toBe(100)
  compare(clock, [200, 200.1, 201, 261])
  expect(lead(clock)).toBe(100)
  compare(clock, [300, 360, 361, 361.1])
  // What the clocks may have come apart meanwhile.
  expect(lead(clock)).toBe(200)
})

test('P8: clocks may drift apart, and the next quick answer tells', () => {
  const clock = new ServerClock()
  compare(clock, [0, 0.1, 1, 1.1])
  const later = 3_600_000
  compare(clock, [later, later + 0.1, later + 1, later + 1.1], AHEAD + 100_000)
  expect(lead(clock, AHEAD + 100_000)).toBe(100)
})

test('P8: a clock that was set, or that of another server, counts at once', () => {
  const clock = new ServerClock()
  compare(clock, [0, 0.1, 1, 1.1])
  compare(clock, [10, 10.1, 11, 11.1], AHEAD - 5_000_000)
  expect(lead(clock, AHEAD - 5_000_000)).toBe(100)
})
