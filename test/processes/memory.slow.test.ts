import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { defineQueue, type Queue } from '../../src/index.ts'
import type { Performed } from '../support/heavy-worker.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { type WorkerProcess, WorkerProcesses } from '../support/worker-processes.ts'

vi.setConfig({ testTimeout: 180_000 })

const WORKER = new URL('../support/heavy-worker.ts', import.meta.url)
const KB = 1_024
const PAST = 1_536_323_288_000
const PATIENCE = 120_000

const env = useWorkers()
let processes: WorkerProcesses
let queues = 0

beforeEach(() => {
  processes = new WorkerProcesses()
  queues += 1
})
afterEach(() => processes.end())

/** `heap` is the limit of its JavaScript heap in MB. A worker that does nothing needs some thirty of them from source. */
function start(queue: Queue, heap: number, policy: object = {}): WorkerProcess {
  const { connectionString } = env
  const worker = { slots: 2, lease: 1_000, rebalanceInterval: 100, poll: 50 }
  const options = { connectionString, queue: { name: queue.name, shards: 1, ...policy }, worker }
  return processes.fork(options, WORKER, heap)
}

const performed = (...by: WorkerProcess[]) =>
  by.flatMap((one) => one.of('performed') as unknown as Performed[][]).flat()

const text = (bytes: number, start: number) => String(start).padStart(8, '0').padEnd(bytes, 'x')

async function push(
  queue: Queue,
  jobs: { id: string; payload: unknown; score?: number; performIn?: number }[],
) {
  for (let from = 0; from < jobs.length; from += 20)
    await env.lockstep.enqueue(queue, jobs.slice(from, from + 20))
}

describe('a worker process with a small heap', () => {
  test('R9: processes an id with more payloads than fit, in order, while others go on', async () => {
    const queue = defineQueue(`huge ${queues}`, { shards: 1 })
    const huge = Array.from({ length: 200 }, (_, score) => ({
      id: 'huge',
      payload: text(400 * KB, score),
      score,
      performIn: PAST,
    }))
    const others = Array.from({ length: 20 }, (_, index) => ({
      id: `id-${index}`,
      payload: 'x',
      performIn: PAST + 1,
    }))
    await push(queue, [...huge, ...others])
    const worker = start(queue, 90)
    await eventually(async () => expect(await env.jobs(queue)).toBe(0), PATIENCE)
    expect(worker.endedAt).toBeUndefined()
    const all = performed(worker)
    const rounds = all.filter(({ id }) => id === 'huge')
    expect(rounds.reduce((sum, { payloads }) => sum + payloads, 0)).toBe(huge.length)
    let place = 0
    for (const { first, payloads } of rounds) {
      expect(Number(first)).toBe(place)
      place += payloads
    }
    // Its second round is due since the first one left it. So the other jobs, which were due before that, do not come
    // after all its rounds.
    const last = all.findLastIndex(({ id }) => id !== 'huge')
    expect(all.slice(0, last).filter(({ id }) => id === 'huge').length).toBeLessThan(rounds.length / 2)
    expect(all.filter(({ id }) => id !== 'huge')).toHaveLength(others.length)
  })

  test('R10: one payload that exceeds it is a crash, counted; the others go on, and in the end it is dead', async () => {
    const policy = { maxCrashes: 2, maxRetryCount: 0 }
    const queue = defineQueue(`monster ${queues}`, { shards: 1 })
    const monster = Array.from({ length: 2_000_000 }, () => ({}))
    await push(queue, [{ id: 'monster', payload: monster, performIn: PAST }])
    const others = Array.from({ length: 20 }, (_, index) => ({
      id: `id-${index}`,
      payload: 'x',
      performIn: PAST + 1,
    }))
    await push(queue, others)
    const all: WorkerProcess[] = []
    for (let crash = 1; crash <= policy.maxCrashes; crash += 1) {
      all.push(start(queue, 60, policy))
      await all.at(-1)!.ended()
      expect(await env.job(queue, 'monster')).toMatchObject({ crashes: crash - 1 })
    }
    all.push(start(queue, 60, policy))
    await eventually(async () => expect(await env.jobs(queue)).toBe(0), PATIENCE)
    expect(all.at(-1)!.endedAt).toBeUndefined()
    const dead = await env.sql<{ id: string; error: string }>(
      'SELECT id, error FROM lockstep.dead WHERE queue = $1',
      [queue.name],
    )
    expect(dead).toEqual([{ id: 'monster', error: expect.stringMatching(/CrashLimitError: .*maxBytes/) }])
    expect(new Set(performed(...all).map(({ id }) => id))).toEqual(new Set(others.map(({ id }) => id)))
  })

  test('R9: a thousand ids of 300 kB that a batch may have all at once', async () => {
    const queue = defineQueue(`batch ${queues}`, { shards: 1 })
    const jobs = Array.from({ length: 1_000 }, (_, index) => ({
      id: `id-${index}`,
      payload: text(300 * KB, index),
      performIn: PAST + index,
    }))
    await push(queue, jobs)
    const worker = start(queue, 160, { batchSize: 1_000 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0), PATIENCE)
    expect(worker.endedAt).toBeUndefined()
    expect(new Set(performed(worker).map(({ id }) => id)).size).toBe(jobs.length)
    expect(performed(worker)).toHaveLength(jobs.length)
  })
})
