import { beforeEach, describe, expect, test, vi } from 'vitest'
import { defineQueue, type Queue } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { growQueues } from '../../src/worker/assignment/growth.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { inversions, lost, overlaps, repeats } from '../support/checker.ts'
import { Producer } from '../support/producer.ts'
import { Recorder } from '../support/recorder.ts'
import { shardsHeld } from '../support/shards.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const IDS = Array.from({ length: 40 }, (_, index) => `id ${index}`)
const LATER = new Date('2999-01-01')

let infos: object[]
beforeEach(() => {
  infos = []
  const info = vi.spyOn(env.logger, 'info').mockImplementation((fields, message) => {
    if (message.startsWith('the queue grew')) infos.push(fields)
  })
  env.later(() => info.mockRestore())
})

/** The queue as another release defines it. */
const redefined = (queue: Queue, shards?: number): Queue =>
  defineQueue(queue.name, { perform: queue.perform!, ...(shards && { shards }) })

async function rowOf({ name }: Queue): Promise<{ id: number; shards: number }> {
  const [row] = await env.sql<{ id: number; shards: number }>(
    'SELECT queue_id AS id, shards FROM lockstep.queues WHERE name = $1',
    [name],
  )
  return row!
}

async function shardsUsed(queue: Queue): Promise<Map<string, number>> {
  const rows = await env.sql<{ id: string; shard: number }>(
    'SELECT j.id, j.shard FROM lockstep.jobs j WHERE j.queue_id = $1',
    [(await rowOf(queue)).id],
  )
  return new Map(rows.map(({ id, shard }) => [id, shard]))
}

describe('a worker whose definition names', () => {
  test('more shards than the queue has grows it, and says so', async () => {
    const queue = env.queue({ shards: 3, perform() {} })
    await env.lockstep.enqueue(queue, { id: 'a' })
    const worker = env.create({ queues: [redefined(queue, 8)] })
    const rebalanced = next(worker, 'rebalanced')
    await worker.start()
    expect(await rebalanced).toEqual({ shards: 8 })
    expect(await rowOf(queue)).toMatchObject({ shards: 8 })
    expect(infos).toEqual([{ queue: queue.name, was: 3, shards: 8 }])
    expect(env.warnings).toEqual([])
  })

  test('fewer changes nothing, and is told of', async () => {
    const queue = env.queue({ shards: 8, perform() {} })
    await env.lockstep.enqueue(queue, { id: 'a' })
    const worker = env.create({ queues: [redefined(queue, 3)] })
    const rebalanced = next(worker, 'rebalanced')
    await worker.start()
    expect(await rebalanced).toEqual({ shards: 8 })
    expect(await rowOf(queue)).toMatchObject({ shards: 8 })
    expect(infos).toEqual([])
    expect(env.warnings).toEqual([
      {
        fields: { queue: queue.name, shards: 8, defined: 3 },
        message: expect.stringMatching('more shards than its definition: see `reshard`'),
      },
    ])
  })

  test.each([5, 16, 24])('none changes nothing, and says nothing, where the queue has %i', async (shards) => {
    const queue = env.queue({ shards, perform() {} })
    await env.lockstep.enqueue(queue, { id: 'a' })
    const worker = env.create({ queues: [redefined(queue)] })
    const rebalanced = next(worker, 'rebalanced')
    await worker.start()
    expect(await rebalanced).toEqual({ shards })
    expect(await rowOf(queue)).toMatchObject({ shards })
    expect([infos, env.warnings]).toEqual([[], []])
  })
})

test('of workers that start at once, one grows the queue, and all share it', async () => {
  const queue = env.queue({ shards: 2, perform() {} })
  await env.lockstep.enqueue(queue, { id: 'a' })
  const workers = await Promise.all(
    Array.from({ length: 3 }, () => env.work({ queues: [redefined(queue, 6)], rebalanceInterval: 50 })),
  )
  await eventually(async () => {
    const held = await Promise.all(workers.map(({ processId }) => shardsHeld(env, processId, queue)))
    expect(held.map(({ length }) => length)).toEqual([2, 2, 2])
    expect(new Set(held.flat()).size).toBe(6)
  })
  expect(infos).toEqual([{ queue: queue.name, was: 2, shards: 6 }])
})

test('whoever serves the queue hears that it grew, and does not wait for a rebalance interval', async () => {
  const queue = env.queue({ shards: 2, perform() {} })
  const worker = await env.work({ queues: [queue], rebalanceInterval: 60_000 })
  await env.idle(queue)
  const rebalanced = next(worker, 'rebalanced')
  const served = new ServedQueue(redefined(queue, 7), (await rowOf(queue)).id)
  await growQueues(new Database(env.pool, 'lockstep'), [served], env.logger)
  expect(await rebalanced).toEqual({ shards: 7 })
})

test('P3: what is pushed by the number before, and committed after, is performed', async () => {
  const done: string[] = []
  const queue = env.queue({ shards: 2, perform: (batch) => void done.push(...batch.keys()) })
  await env.lockstep.enqueue(queue, { id: 'first', performIn: LATER })
  const producer = await env.session()
  await producer.query('BEGIN')
  await env.lockstep.enqueue(
    queue,
    IDS.map((id) => ({ id })),
    { tx: producer },
  )
  const worker = env.create({ queues: [redefined(queue, 16)] })
  const rebalanced = next(worker, 'rebalanced')
  await worker.start()
  expect(await rebalanced).toEqual({ shards: 16 })
  await producer.query('COMMIT')
  await eventually(() => expect(done.toSorted()).toEqual(IDS.toSorted()))
})

test('P2: an id that waits stays where it is, and what is pushed into it later joins it there', async () => {
  const batches: unknown[] = []
  const queue = env.queue({ shards: 2, perform: (batch) => void batches.push(...batch.values()) })
  const push = (ids: readonly string[], score: number) =>
    env.lockstep.enqueue(
      queue,
      ids.map((id) => ({ id, payload: score, score, performIn: LATER })),
    )
  await push(IDS, 2)
  const before = await shardsUsed(queue)
  await env.work({ queues: [redefined(queue, 16)] })
  const others = IDS.map((id) => `another ${id}`)
  await push([...IDS, ...others], 1)
  const after = await shardsUsed(queue)
  for (const id of IDS) expect(after.get(id)).toBe(before.get(id))
  expect(Math.max(...others.map((id) => after.get(id)!))).toBeGreaterThan(7)
  await env.lockstep.performNow(queue, { ids: IDS })
  await eventually(() => expect(batches).toHaveLength(IDS.length))
  expect(batches).toEqual(IDS.map(() => [1, 2]))
})

test('P1 P2 P3: a queue grows and grows again while producers and workers are at it', {
  tags: 'slow',
}, async () => {
  const recorder = new Recorder()
  const perform = recorder.around(() => new Promise((resolve) => setTimeout(resolve, Math.random() * 3)))
  const queue = env.queue({ shards: 2, batchSize: 3, perform })
  const work = async (shards: number) => {
    const worker = env.create({ queues: [redefined(queue, shards)], slots: 3, rebalanceInterval: 100 })
    recorder.hear(worker)
    await worker.start()
    return worker
  }
  const ran = async (more: number) => {
    const enough = recorder.runs.length + more
    await eventually(() => expect(recorder.runs.length).toBeGreaterThan(enough))
  }
  const first = await work(2)
  const producer = new Producer(env, queue, IDS.length)
  await ran(100)
  const second = await work(12)
  await ran(100)
  const third = await work(16)
  // A worker with the previous release's definition starts again.
  await first.stop()
  const fourth = await work(2)
  await eventually(async () => {
    const held = [second, third, fourth].map(({ processId }) => shardsHeld(env, processId, queue))
    expect(new Set((await Promise.all(held)).flat()).size).toBe(16)
  })
  await ran(100)
  await producer.end()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(await rowOf(queue)).toMatchObject({ shards: 16 })
  expect(lost(recorder.runs, producer.pushed)).toEqual([])
  expect(repeats(recorder.runs)).toEqual([])
  expect(overlaps(recorder.runs)).toEqual([])
  expect(inversions(recorder.runs, (payload) => payload as number)).toEqual([])
})
