import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue, type Queue } from '../../src/index.ts'
import { inversions, lost, overlaps, repeats } from '../support/checker.ts'
import { Producer } from '../support/producer.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { type WorkerProcess, WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 120_000 })

const IDS = 40
const ORDER = (payload: unknown) => payload as number

const env = useWorkers()
let processes: WorkerProcesses

beforeEach(() => {
  processes = new WorkerProcesses()
})
afterEach(() => processes.end())

test('P1 P2 P3: from 5 shards to 24 and to 3 while producers and workers run', async () => {
  const queue = defineQueue('resharded', { shards: 5 })
  const workers = await Promise.all([start(queue), start(queue)])
  const producer = new Producer(env, queue, IDS)
  await allShardsServed(workers, 5)

  await env.lockstep.reshard(queue, 24)
  await allShardsServed(workers, 24)
  await someMoreRuns()

  await env.lockstep.reshard(queue, 3)
  // The workers move what a producer still stored by the old number.
  await eventually(async () => expect(await strays()).toEqual([]))
  await allShardsServed(workers, 3)
  await someMoreRuns()

  await producer.end()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(new Set(processes.runs.map(({ process }) => process)).size).toBe(2)
  expect(lost(processes.runs, producer.pushed)).toEqual([])
  expect(repeats(processes.runs)).toEqual([])
  expect(overlaps(processes.runs, processes)).toEqual([])
  expect(inversions(processes.runs, ORDER)).toEqual([])
})

const strays = () => env.sql('SELECT id FROM lockstep.jobs WHERE shard >= 3')

function start(queue: Queue): Promise<WorkerProcess> {
  return processes.start({
    connectionString: env.connectionString,
    queue: { name: queue.name, shards: queue.shards, batchSize: 3 },
    worker: { slots: 3, rebalanceInterval: 100 },
    work: 8,
  })
}

/** Waits until the workers' last reports add up to all shards, divided evenly. */
async function allShardsServed(workers: readonly WorkerProcess[], shards: number): Promise<void> {
  const shares = [Math.floor(shards / 2), Math.ceil(shards / 2)]
  const held = () =>
    workers.map((worker) => (worker.of('rebalanced').at(-1) as { shards: number } | undefined)?.shards ?? 0)
  await eventually(() => expect(held().sort((a, b) => a - b)).toEqual(shares))
}

async function someMoreRuns(): Promise<void> {
  const before = processes.runs.length
  await eventually(() => expect(processes.runs.length).toBeGreaterThan(before + 150))
}
