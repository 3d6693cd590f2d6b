import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { allOf, OPEN, Refusals } from '../../src/worker/schedule/admission.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { setClock } from '../support/server-clock.ts'

const LANE = { queueId: 1, shard: 0, lane: 0 }
const AHEAD = 3_600_000

let clock: ServerClock
let refusals: Refusals

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
  clock = new ServerClock()
  // The server's clock is an hour ahead.
  setClock(clock, (performance.now() + AHEAD) * 1000)
  refusals = new Refusals(clock, 500)
})
afterEach(() => {
  vi.useRealTimers()
})

/** ms for which slots wait before they take from the lane. */
function wait(lane = LANE): number {
  const at = allOf(OPEN, refusals).notBefore(lane)
  return at === 0 ? 0 : Math.round((at - clock.now()) / 1000)
}

test('one batch that could not begin keeps nobody, nor do others that were taken before it was refused', () => {
  const takenAt = performance.now()
  vi.advanceTimersByTime(10)
  expect(refusals.refuse(1, takenAt)).toBe(false)
  vi.advanceTimersByTime(10)
  expect(refusals.refuse(1, takenAt)).toBe(false)
  expect(wait()).toBe(0)
})

test('one that was taken after that keeps slots from the queue alone, and for poll', () => {
  refusals.refuse(1, performance.now())
  vi.advanceTimersByTime(10)
  expect(refusals.refuse(1, performance.now())).toBe(true)
  expect([wait(), wait({ ...LANE, queueId: 2 })]).toEqual([500, 0])
  vi.advanceTimersByTime(400)
  expect(wait()).toBe(100)
  // Setting the server's clock changes nothing.
  setClock(clock, performance.now() * 1000)
  expect(wait()).toBe(100)
  vi.advanceTimersByTime(100)
  expect(wait()).toBe(0)
})

test('also where slots are refused one after the other, each after it took its batch', () => {
  const outOfStep = [0, 3, 7, 10, 14].map((takenAt) => ({ takenAt, refusedAt: takenAt + 5 }))
  const start = performance.now()
  const kept = outOfStep.map(({ takenAt, refusedAt }) => {
    vi.advanceTimersByTime(start + refusedAt - performance.now())
    return refusals.refuse(1, start + takenAt)
  })
  expect(kept).toContain(true)
})

test('at most a second, however rarely the worker polls', () => {
  refusals = new Refusals(clock, 60_000)
  refusals.refuse(1, performance.now())
  vi.advanceTimersByTime(10)
  refusals.refuse(1, performance.now())
  expect(wait()).toBe(1_000)
})

test('until a batch begins', () => {
  refusals.refuse(1, performance.now())
  vi.advanceTimersByTime(10)
  refusals.refuse(1, performance.now())
  expect(refusals.admit(1)).toBe(true)
  expect(wait()).toBe(0)
  expect(refusals.admit(1)).toBe(false)
})
