import { expect, test } from 'vitest'
import { Latencies, wallClock } from '../../bench/measure/latencies.ts'
import { pace } from '../../bench/measure/pace.ts'

test('a job that never started has waited until now, and is told as undone', () => {
  const latencies = new Latencies(2)
  for (const seq of [0, 1]) latencies.begins(seq, wallClock() - 20)
  latencies.started(0, wallClock() - 15)
  const { value, p99, undone } = latencies.figures()
  expect(value).toBeLessThan(p99!)
  expect(p99).toBeGreaterThanOrEqual(20)
  expect(undone).toBe(1)
})

test('starts are told by other processes too, and later than they were', async () => {
  const latencies = new Latencies(1)
  latencies.begins(0)
  latencies.started(0, wallClock() + 5_000)
  await latencies.finish.reached
  expect(latencies.figures().value).toBeGreaterThan(4_900)
})

test('a warm-up does not count', () => {
  const latencies = new Latencies(1)
  latencies.begins(-1)
  latencies.starts([{ key: 'job', seq: -1 }])
  expect(latencies.figures().undone).toBe(1)
})

test('a job that starts twice makes the run invalid', () => {
  const latencies = new Latencies(1)
  latencies.begins(0)
  for (const _ of [1, 2]) latencies.started(0)
  expect(() => latencies.figures()).toThrow('1 jobs were started twice')
})

test('calls keep their pace whoever answers late', async () => {
  const startedAt = performance.now()
  const called: number[] = []
  await pace(500, { from: -5, to: 20 }, (seq) => {
    called.push(seq)
    return new Promise(() => {})
  })
  expect(called).toEqual(Array.from({ length: 25 }, (_, index) => index - 5))
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(47)
})
