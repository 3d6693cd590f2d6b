import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { ObservedLockstep } from '../../src/index.ts'
import { State } from '../../src/telemetry/state.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** A database that takes its time; ms, or for ever. */
function slow(state: State, ms: number | undefined) {
  const stats = vi.fn(async () => {
    await new Promise((resolve) => ms !== undefined && setTimeout(resolve, ms))
    return { queues: [] }
  })
  const lockstep: ObservedLockstep = { stats, snapshotAge: async () => 2_000 }
  state.instrument.open!({ lockstep })
  return stats
}

const sampled = async (state: State, gauge: string) =>
  (await state.samples()).find((sample) => sample.gauge === gauge)?.value

test('a database that does not answer is told after 5 s, and is not asked again meanwhile', async () => {
  const state = new State(true)
  const stats = slow(state, 12_000)
  for (const expected of [0, 0, 1]) {
    const readable = sampled(state, 'readable')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(await readable).toBe(expected)
  }
  expect(stats).toHaveBeenCalledTimes(1)
  expect(await sampled(state, 'snapshot')).toBe(2)
})

test('reading takes a twentieth of the time at most', async () => {
  const state = new State(true)
  const stats = slow(state, 1_000)
  const first = state.samples()
  await vi.advanceTimersByTimeAsync(1_000)
  await first
  await vi.advanceTimersByTimeAsync(19_900)
  await state.samples()
  expect(stats).toHaveBeenCalledTimes(1)
  await vi.advanceTimersByTimeAsync(200)
  void state.samples()
  expect(stats).toHaveBeenCalledTimes(2)
})

test('the Lockstep that was created last is asked, until it closes', async () => {
  const state = new State(true)
  const first = slow(state, 0)
  const lockstep: ObservedLockstep = {
    stats: vi.fn(async () => ({ queues: [] })),
    snapshotAge: async () => 0,
  }
  state.instrument.open!({ lockstep })
  await state.samples()
  expect(first).not.toHaveBeenCalled()
  state.instrument.close!({ lockstep })
  await vi.advanceTimersByTimeAsync(10_000)
  void state.samples()
  expect(first).toHaveBeenCalledTimes(1)
})
