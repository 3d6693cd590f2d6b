import { describe, expect, test } from 'vitest'
import type { Queue, Worker } from '../../src/index.ts'
import { terminate } from '../support/backends.ts'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import { threads } from '../support/start-thread.ts'
import { aborted, block, eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const LEASE = 1_000

const env = useWorkers()

describe('a lease ends when others have removed the process', () => {
  test('P6: signals are aborted, results refused, and the worker goes on as somebody new', async () => {
    const recorder = new Recorder()
    const gate = new Gate()
    const queue = env.queue({
      perform: recorder.around(async (batch, { signal }) => {
        if (!batch.has('long') || recorder.of('long').length > 1) return
        await aborted(signal)
        await gate.opened
      }),
    })
    const worker = await env.work({ queues: [queue], lease: LEASE })
    const former = worker.processId
    const started = next(worker, 'started')
    await env.lockstep.enqueue(queue, { id: 'long' })
    await started

    const lost = next(worker, 'leaseLost')
    await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [former])
    expect(await lost).toEqual({ processId: former })
    const other = env.create({ queues: [queue], lease: LEASE })
    const taken = next(other, 'completed', ({ ids }) => ids.includes('long'))
    await other.start()
    await taken

    const refused = next(worker, 'refused')
    gate.open()
    expect(await refused).toEqual({ queue: queue.name, id: 'long' })
    await other.stop()
    await expectWorking(worker, queue)
    expect(worker.processId).not.toBe(former)
    expect(recorder.of('long')).toHaveLength(2)
  })
})

test('R10: claims that a worker knows nothing of, as after a failover, are free once its lease has another connection', async () => {
  const recorder = new Recorder()
  const gate = new Gate()
  const queue = env.queue({
    perform: recorder.around(async (batch) => {
      if (batch.has('long')) await gate.opened
    }),
  })
  // Long enough for the reconnection on a busy machine: once the lease has ended, the worker waits for its handlers first.
  const worker = await env.work({ queues: [queue], lease: 4 * LEASE })
  const former = worker.processId
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, [{ id: 'long' }, { id: 'forgotten', performIn: Date.now() + 3_600_000 }])
  await started
  await env.sql(
    `UPDATE lockstep.jobs SET claimed_by = $1, claimed_at = now(), fence = nextval('lockstep.fences'), perform_in = now()
     WHERE id = 'forgotten'`,
    [former],
  )
  await terminate(env, 'lease')
  await eventually(() => expect(worker.processId).not.toBe(former))
  const completed = next(worker, 'completed', ({ ids }) => ids.includes('forgotten'))
  gate.open()
  await completed
  expect(recorder.of('long')).toHaveLength(1)
  expect(await env.sql('SELECT FROM lockstep.processes')).toHaveLength(1)
})

test('P1: where the thread that renews it dies, the lease counts as lost, another thread is started, and stop ends', async () => {
  const recorder = new Recorder()
  const queue = env.queue({
    perform: recorder.around(async (batch, { signal }) => {
      if (batch.has('long') && recorder.of('long').length === 1) await aborted(signal)
    }),
  })
  const worker = await env.work({ queues: [queue], lease: LEASE })
  const former = worker.processId
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'long' })
  await started
  const told = [next(worker, 'failure'), next(worker, 'leaseLost')]
  await threads.at(-1)!.terminate()
  expect(await Promise.all(told)).toEqual([new Error('the lease thread ended'), { processId: former }])
  await expectWorking(worker, queue)
  expect(worker.processId).not.toBe(former)
  expect(overlaps(recorder.runs)).toEqual([])

  await threads.at(-1)!.terminate()
  expect(await worker.stop()).toBe(true)
})

test('P1: while a lost lease’s handler ignores its signal, others serve its shards, and it takes nothing', async () => {
  const recorder = new Recorder()
  const gate = new Gate()
  const perform = recorder.around(async (batch) => {
    if (batch.has('stubborn') && recorder.of('stubborn').length === 1) await gate.opened
  })
  const queue = env.queue({ shards: 2, perform })
  const worker = await env.work({ queues: [queue], lease: LEASE })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'stubborn' })
  await started

  const lost = next(worker, 'leaseLost')
  await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [worker.processId])
  await lost
  const mine: string[] = []
  worker.on('started', ({ ids }) => mine.push(...ids))
  const other = env.create({ queues: [queue], lease: LEASE })
  const ids = Array.from({ length: 20 }, (_, index) => `id-${index}`)
  const theirs: string[] = []
  other.on('completed', (event) => theirs.push(...event.ids))
  await other.start()
  await env.lockstep.enqueue(
    queue,
    ids.map((id) => ({ id })),
  )
  await eventually(() => expect(theirs.sort()).toEqual([...ids, 'stubborn'].sort()))
  expect(mine).toEqual([])
  gate.open()
  await next(worker, 'refused')
})

test('P1: a lease that can’t be renewed: signals are aborted before it ends, and nobody takes over earlier', async () => {
  const recorder = new Recorder()
  const abortedAt: number[] = []
  const queue = env.queue({
    perform: recorder.around(async (_, { signal }) => {
      if (recorder.runs.length > 1) return
      await aborted(signal)
      abortedAt.push(Date.now())
      signal.throwIfAborted()
    }),
  })
  const worker = await env.work({ queues: [queue], lease: 2 * LEASE })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  const lost = next(worker, 'leaseLost')
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
  const [row] = await env.sql<{ ends: number }>(
    'SELECT extract(epoch FROM expires_at)::float8 * 1000 AS ends FROM lockstep.processes WHERE process_id = $1',
    [worker.processId],
  )
  await lost
  await eventually(() => expect(abortedAt).toHaveLength(1))
  expect(abortedAt[0]).toBeLessThan(row!.ends)
  await blocker.query('COMMIT')
  const completed = next(worker, 'completed')
  await completed
  expect(recorder.runs).toHaveLength(2)
})

test('P1: a handler that blocks the event loop for longer than the lease keeps it', async () => {
  const recorder = new Recorder()
  const queue = env.queue({
    perform: recorder.around(() => block(2.5 * LEASE)),
  })
  const worker = await env.work({ queues: [queue], lease: LEASE })
  let lost = 0
  worker.on('leaseLost', () => {
    lost += 1
  })
  const { processId } = worker
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'busy' })
  await completed
  expect(worker.processId).toBe(processId)
  expect(lost).toBe(0)
  expect(recorder.runs).toHaveLength(1)
})

test('P1: a claim answered after the process became somebody new holds, and is settled', async () => {
  const recorder = new Recorder()
  const gate = new Gate()
  const queue = env.queue({ shards: 2, perform: recorder.around(() => gate.opened) })
  const worker = await env.work({ queues: [queue], slots: 4 })
  const former = worker.processId
  const refused: unknown[] = []
  worker.on('refused', (event) => refused.push(event))
  await env.idle(queue)

  // Two claims wait for the table. The connection of one breaks, so it is unknown what that one has claimed.
  const ids = await onePerShard(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])
  // At different times, so that each goes in its own call.
  const jobs = ids.map((id, index) => ({ id, performIn: Date.now() + 300 + 50 * index }))
  await env.lockstep.enqueue(queue, jobs)
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.jobs IN ACCESS EXCLUSIVE MODE')
  const claims = await eventually(() => claimsThatWait(2))
  await env.sql('SELECT pg_terminate_backend($1)', [claims[0]])
  await eventually(() => expect(worker.processId).not.toBe(former))
  await blocker.query('COMMIT')

  // Its locks are lost too, so the worker looks at its shards as if they were new.
  await eventually(() => expect(recorder.ids.sort()).toEqual(ids.sort()))
  const rebalanced = next(worker, 'rebalanced')
  expect(await terminate(env, 'lock')).toBe(1)
  await rebalanced
  await env.idle(queue)
  gate.open()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(refused).toEqual([])
  expect(overlaps(recorder.runs)).toEqual([])
  expect(recorder.ids.sort()).toEqual(ids.sort())
})

async function claimsThatWait(count: number): Promise<number[]> {
  const rows = await env.sql<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND query LIKE '%.claim(%' AND datname = current_database()`,
  )
  expect(rows).toHaveLength(count)
  return rows.map(({ pid }) => pid)
}

async function expectWorking(worker: Worker, queue: Queue): Promise<void> {
  const id = `after ${worker.processId}`
  const completed = next(worker, 'completed', ({ ids }) => ids.includes(id))
  await env.lockstep.enqueue(queue, { id })
  await completed
}

/** Returns one id for each of two shards. */
async function onePerShard(ids: readonly string[]): Promise<string[]> {
  const rows = await env.sql<{ id: string; shard: number }>(
    'SELECT i.id, lockstep.shard_of(i.id, 2) AS shard FROM unnest($1::text[]) AS i(id)',
    [ids],
  )
  return [0, 1].map((shard) => rows.find((row) => row.shard === shard)!.id)
}
