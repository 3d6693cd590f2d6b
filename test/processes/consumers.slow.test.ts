import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { inversions, lost, overlaps, phantoms, shrunkFences, staleCompletions } from '../support/checker.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { WorkerProcesses } from '../support/worker-processes.ts'

vi.setConfig({ testTimeout: 180_000 })

const CONSUMER = new URL('../support/consumer-process.ts', import.meta.url)
const LEASE = 1_500

const env = useWorkers()
let processes: WorkerProcesses

beforeEach(() => {
  processes = new WorkerProcesses()
})
afterEach(() => processes.end())

test('P1 P2 P3 P6: consumers and workers share a queue, are killed, fail, forget and go away', async () => {
  const queue = defineQueue<number>('shared', { shards: 6, retryIn: () => 0.02, maxRetryCount: 1_000 })
  const { connectionString } = env
  const consumer = () =>
    processes.start(
      // A child of its own kind takes options of its own.
      {
        connectionString,
        queue: { name: queue.name, maxRetryCount: 1_000 },
        callers: 8,
        lease: LEASE,
        work: 20,
      } as never,
      CONSUMER,
    )
  const worker = () =>
    processes.start({
      connectionString,
      queue: { name: queue.name, shards: 6, maxRetryCount: 1_000 },
      worker: { slots: 4, lease: LEASE, rebalanceInterval: 100, poll: 200 },
      work: 20,
    })
  const ids = Array.from({ length: 60 }, (_, n) => `id ${n}`)
  const pushed = new Map<string, number[]>(ids.map((id) => [id, []]))
  let isOver = false
  const producing = (async () => {
    for (let n = 0; !isOver; n += 1) {
      const some = ids.filter(() => Math.random() < 0.3)
      await env.lockstep.enqueue(
        queue,
        some.map((id) => ({ id, payload: n, score: n })),
      )
      for (const id of some) pushed.get(id)!.push(n)
      await sleep(10)
    }
  })()
  const running = [await consumer(), await consumer(), await worker()]
  for (let round = 0; round < 6; round += 1) {
    await sleep(2_000)
    const victim = running.shift()!
    await victim.kill()
    running.push(round % 3 === 2 ? await worker() : await consumer())
  }
  isOver = true
  await producing
  await eventually(async () => expect(await env.jobs(queue)).toBe(0), 60_000)
  const { runs } = processes
  expect(runs.length).toBeGreaterThan(1_000)
  expect(overlaps(runs, processes)).toEqual([])
  expect(inversions(runs, (payload) => payload as number)).toEqual([])
  expect(lost(runs, pushed)).toEqual([])
  expect(phantoms(runs, pushed)).toEqual([])
  expect(staleCompletions(runs)).toEqual([])
  expect(shrunkFences(runs)).toEqual([])
})
