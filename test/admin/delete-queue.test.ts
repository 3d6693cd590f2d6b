import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { defineQueue, OptionError, type Progress } from '../../src/index.ts'
import { addCounts } from '../../src/store/counter.ts'
import { deleteQueueRow, lockQueues } from '../../src/store/queue-contents.ts'
import {
  openStore,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'

const ids = (count: number, prefix = '') => Array.from({ length: count }, (_, n) => ({ id: `${prefix}${n}` }))

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

const rowOf = ({ queueId }: TestQueue) =>
  env.query('SELECT FROM lockstep.queues WHERE queue_id = $1', [queueId])

/** The number of rows with the queue's number in any table. */
async function left({ queueId }: TestQueue): Promise<number> {
  let left = 0
  const tables = await env.query<{ name: string }>(
    `SELECT DISTINCT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'lockstep'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attname = 'queue_id'`,
  )
  expect(tables.length).toBeGreaterThan(12)
  for (const { name: table } of tables)
    left += (await env.query(`SELECT FROM lockstep.${table} WHERE queue_id = $1`, [queueId])).length
  return left
}

async function bury(testQueue: TestQueue, count: number): Promise<void> {
  await testQueue.push(...ids(count, 'dead '))
  await env.lockstep.kill(testQueue.queue, { ids: ids(count, 'dead ').map(({ id }) => id) })
}

describe('deleting a queue', () => {
  test('that is empty takes its row and its counts', async () => {
    const testQueue = await env.queue()
    await addCounts(env.database, [{ queueId: testQueue.queueId, processed: 1, failed: 1, expired: 0 }])
    expect(await env.lockstep.deleteQueue(testQueue.queue)).toEqual({ done: 0, total: 0 })
    expect(await left(testQueue)).toBe(0)
    await expect(env.lockstep.deleteQueue(testQueue.queue)).rejects.toMatchObject({
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
    })
  })

  test('takes its results, its leases and what is known of its tenants, and no other queue’s', async () => {
    const [testQueue, other] = [await env.queue(), await env.queue()]
    for (const { queueId } of [testQueue, other])
      await env.query(
        `WITH results AS (
           INSERT INTO lockstep.results (queue_id, job_id, fence, result, ended_at, keep_until)
           SELECT $1, 'a', n, '1', now(), now() + interval '1 day' FROM generate_series(1, 10001) n
         ), leases AS (
           INSERT INTO lockstep.leases (queue_id, fence, max_retry_count, ids, ends_at) VALUES ($1, 1, 1, '{a,b}', now() + interval '1 day')
         ), pushes AS (
           INSERT INTO lockstep.tenant_pushes (queue_id, tenant, pushed_at, pushes) VALUES ($1, 't', now(), 1)
         ), lanes AS (
           INSERT INTO lockstep.tenant_lanes (queue_id, tenant, number, given_at, lane) VALUES ($1, 't', 1, now(), -1)
         )
         INSERT INTO lockstep.tenant_waits (queue_id, told_at, waits, tenants) VALUES ($1, now(), '{1}', '{t}')`,
        [queueId],
      )
    const before = await left(other)
    await env.lockstep.deleteQueue(testQueue.queue)
    expect(await left(testQueue)).toBe(0)
    expect(await left(other)).toBe(before)
  })

  test('leaves a row that another session has locked to maintenance, and doesn’t wait for it', async () => {
    const testQueue = await env.queue()
    await env.query(
      `INSERT INTO lockstep.leases (queue_id, fence, max_retry_count, ids, ends_at)
       SELECT $1, n, 1, '{a}', now() FROM generate_series(1, 2) n`,
      [testQueue.queueId],
    )
    const ending = await env.transaction()
    await ending.query('SELECT FROM lockstep.leases WHERE queue_id = $1 AND fence = 1 FOR UPDATE', [
      testQueue.queueId,
    ])
    await env.lockstep.deleteQueue(testQueue.queue)
    expect(await left(testQueue)).toBe(1)
    await ending.query('ROLLBACK')
    await env.query('SELECT lockstep.end_leases()')
    expect(await left(testQueue)).toBe(0)
  })

  test('that holds jobs or dead payloads is refused, with the counts', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, 2)
    await testQueue.push(...ids(3))
    await expect(env.lockstep.deleteQueue(testQueue.queue.name)).rejects.toMatchObject({
      code: 'LOCKSTEP_QUEUE_NOT_EMPTY',
      message: expect.stringMatching(/3 waiting jobs and 2 dead payloads.*withJobs/),
    })
    expect(await left(testQueue)).toBe(1 + 3 + 2)
  })

  test('with its jobs deletes those in chunks, with progress, and no other queue’s', async () => {
    const [testQueue, other] = [await env.queue({ shards: 3 }), await env.queue()]
    for (const one of [testQueue, other]) {
      await bury(one, 15)
      await one.push(...ids(40))
    }
    const before = await left(other)
    const seen: Progress[] = []
    for await (const step of env.lockstep.deleteQueue(testQueue.queue, { withJobs: true, chunk: 10 }))
      seen.push(step)
    expect(seen[0]).toEqual({ done: 0, total: 55 })
    expect(seen[2]).toEqual({ done: 10, total: 55 })
    expect(seen.at(-1)).toEqual({ done: 55, total: 55 })
    expect(await left(testQueue)).toBe(0)
    expect(await left(other)).toBe(before)
  })

  test('with a few jobs takes one step', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...ids(3))
    expect(await env.lockstep.deleteQueue(testQueue.queue, { withJobs: true })).toEqual({ done: 3, total: 3 })
    expect(await left(testQueue)).toBe(0)
  })

  test('R11 of which a job is in work is refused, whatever is asked for, until its process is gone', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...ids(2))
    const claimer = await testQueue.claimer()
    await claimer.take()
    await expect(env.lockstep.deleteQueue(testQueue.queue, { withJobs: true })).rejects.toMatchObject({
      code: 'LOCKSTEP_QUEUE_IN_USE',
      message: expect.stringContaining('jobs in work: 1, processes that serve it: 0;'),
    })
    expect(await testQueue.countJobs()).toBe(2)
    await env.query('DELETE FROM lockstep.processes WHERE process_id = $1', [claimer.processId])
    expect(await env.lockstep.deleteQueue(testQueue.queue, { withJobs: true })).toEqual({ done: 2, total: 2 })
  })

  test('that a live process serves is refused by its name', async () => {
    const queue = defineQueue('served', { perform() {} })
    const worker = env.lockstep.createWorker({ queues: [queue] })
    await worker.start()
    await expect(env.lockstep.deleteQueue('served', { withJobs: true })).rejects.toMatchObject({
      code: 'LOCKSTEP_QUEUE_IN_USE',
      message: expect.stringMatching(new RegExp(`processes that serve it: 1 \\(\\S+ ${process.pid}\\);`)),
    })
    await worker.stop()
    await env.lockstep.deleteQueue('served')
  })

  test('P3 P4 waits for a transaction that has pushed into it, while pushes into others go on', async () => {
    const [testQueue, other] = [await env.queue(), await env.queue()]
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a' })
    const deleting = env.lockstep.deleteQueue(testQueue.queue).then((last) => last)
    const refused = expect(deleting).rejects.toMatchObject({ code: 'LOCKSTEP_QUEUE_NOT_EMPTY' })
    // Each of these waits for at most one of our tries.
    for (let n = 0; n < 5; n += 1) await other.push({ id: n })
    await producer.query('COMMIT')
    await refused
    expect(await testQueue.set('a')).toHaveLength(1)
    expect(await other.countJobs()).toBe(5)
  })

  test('counts what committed while it waited', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'x' })
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'y' })
    const deleter = env.lockstep.deleteQueue(testQueue.queue, { withJobs: true })
    const steps = deleter[Symbol.asyncIterator]()
    expect((await steps.next()).value).toEqual({ done: 0, total: 1 })
    const last = steps.next()
    await producer.query('COMMIT')
    expect((await last).value).toEqual({ done: 2, total: 2 })
    expect((await steps.next()).done).toBe(true)
    expect(await left(testQueue)).toBe(0)
  })

  test.each(['enqueue', 'enqueue_many'])(
    'P3 P4 lets no push in that comes meanwhile, through %s: the next one makes the queue again',
    async (name) => {
      const testQueue = await env.queue()
      const producer = await env.session()
      const push = (id: string) =>
        producer.query(
          name === 'enqueue'
            ? `SELECT lockstep.enqueue('${testQueue.queue.name}', '${id}')`
            : `SELECT lockstep.enqueue_many('${testQueue.queue.name}', '{${id}}', '{1}', '{1}', '{null}', '{0}')`,
        )
      // From now on the session has cached plans.
      await push('early')
      const deleter = await env.transaction()
      await lockQueues(env.database, deleter)
      const pid = await pidOf(producer)
      const pushing = push('late').catch((error) => error)
      await untilBlocked(env, pid)
      await deleteQueueRow(env.database, testQueue.queueId, deleter)
      await deleter.query('COMMIT')
      expect(await pushing).toMatchObject({ code: 'LK001' })
      expect(await left(testQueue)).toBe(0)
      await testQueue.push({ id: 'later' })
      expect(await env.lockstep.find(testQueue.queue)).toMatchObject({ items: [{ id: 'later' }] })
    },
  )

  test('takes what is pushed while it deletes, or leaves the queue made again', async () => {
    const testQueue = await env.queue({ shards: 4 })
    await testQueue.push(...ids(200))
    let pushing = true
    const producing = (async () => {
      for (let n = 0; pushing; n += 1) await testQueue.push({ id: `more ${n}` }).catch(() => {})
    })()
    await env.lockstep.deleteQueue(testQueue.queue, { withJobs: true, chunk: 20 })
    expect(await left(testQueue)).toBe(0)
    pushing = false
    await producing
    expect(await left(testQueue)).toBe(0)
    expect(await rowOf(testQueue)).toEqual([])
  })

  test('can be stopped', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...ids(50))
    const stop = new AbortController()
    const deleting = (async () => {
      for await (const { done } of env.lockstep.deleteQueue(testQueue.queue, {
        withJobs: true,
        chunk: 10,
        signal: stop.signal,
      }))
        if (done >= 20) stop.abort(new Error('enough'))
    })()
    await expect(deleting).rejects.toThrow('enough')
    expect(await testQueue.countJobs()).toBe(30)
  })

  test('takes no other options', () => {
    expect(() => env.lockstep.deleteQueue('q', { withJob: true } as never)).toThrow(OptionError)
  })
})
