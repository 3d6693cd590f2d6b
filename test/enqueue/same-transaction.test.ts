import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { defineQueue, type Queue } from '../../src/queue.ts'
import { Network } from '../support/network.ts'
import { openStore, poolOn, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { Gate } from '../support/worker-environment.ts'

/** Needs more than one statement. */
const MANY = 2_500

let env: StoreEnvironment
let testQueue: TestQueue
/** The application's pool. It has one client, so that the next caller gets the client that was released last. */
let pool: pg.Pool
let lockstep: Lockstep
/** What a push waits for before its middleware passes it on. */
let middleware: (() => Promise<void>) | undefined
let names = 0

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  pool = poolOn(env.connectionString, { max: 1 })
  lockstep = new Lockstep({
    connectionString: env.connectionString,
    middleware: [
      async ({ jobs }, next) => {
        if (middleware) await middleware()
        await next(jobs)
      },
    ],
  })
})
afterEach(async () => {
  middleware = undefined
  await lockstep.close()
  await pool.end()
})

const jobs = (count: number): NewJob[] => Array.from({ length: count }, (_, i) => ({ id: `${i}` }))

function newQueue(): Queue {
  names += 1
  return defineQueue(`new ${names}`, {})
}

/** Lets this Lockstep learn everything that it asks only once. */
async function warm(): Promise<void> {
  const client = await pool.connect()
  await client.query('BEGIN')
  await lockstep.enqueue(testQueue.queue, { id: 'x' }, { tx: client })
  await client.query('ROLLBACK')
  client.release()
}

test.each(['ROLLBACK', 'COMMIT'])(
  'P4 a push that nobody awaits comes before the %s that is sent after it, not into what begins next',
  async (end) => {
    await warm()
    const client = await pool.connect()
    await client.query('BEGIN')
    const pushing = lockstep.enqueue(testQueue.queue, { id: 'early' }, { tx: client })
    const sent = [end, 'BEGIN'].map((text) => client.query(text))
    await Promise.all([pushing, ...sent])
    await client.query(end === 'ROLLBACK' ? 'COMMIT' : 'ROLLBACK')
    client.release()
    expect(await testQueue.countJobs()).toBe(end === 'ROLLBACK' ? 0 : 1)
    await env.query('DELETE FROM lockstep.payloads; DELETE FROM lockstep.jobs')
  },
)

const isRefused = {
  code: 'LOCKSTEP_BAD_TRANSACTION',
  message: expect.stringContaining('await the call before it commits or rolls back'),
}

// Whatever the caller did beside the push has failed. So he rolls back, and releases the client while the push is still
// under way.
describe('P4: a push whose caller did not wait for it before his ROLLBACK', () => {
  test.each([
    ['is into a new queue', () => newQueue(), 5],
    ['is the first one with `tx`', () => testQueue.queue, 1],
    ['is of several statements', () => warm().then(() => testQueue.queue), MANY],
    ['has a middleware that waits', () => warm().then(() => testQueue.queue), 1],
  ])('and which %s is no part of the next transaction, nor aborts it', async (what, prepare, count) => {
    const queue = await prepare()
    const gate = new Gate()
    if (what.includes('middleware')) middleware = () => gate.opened
    const client = await pool.connect()
    await client.query('BEGIN')
    const pushed = lockstep.enqueue(queue, jobs(count), { tx: client })
    pushed.catch(() => {})
    await client.query('ROLLBACK')
    client.release()

    const next = await pool.connect()
    await next.query('BEGIN; CREATE TEMPORARY TABLE theirs () ON COMMIT DROP')
    gate.open()
    await expect(pushed).rejects.toMatchObject(isRefused)
    const { rows } = await next.query(`SELECT to_regclass('theirs') IS NOT NULL AS kept`)
    await next.query('COMMIT')
    next.release()
    expect(rows).toEqual([{ kept: true }])
    expect(await env.query('SELECT count(*)::int AS count FROM lockstep.jobs')).toEqual([{ count: 0 }])
  })
})

test.each(['COMMIT', 'COMMIT; BEGIN'])(
  'P4: a call of several statements that %j overtakes fails, and leaves what follows alone',
  async (statements) => {
    await warm()
    const client = await pool.connect()
    await client.query('BEGIN')
    const pushed = lockstep.enqueue(testQueue.queue, jobs(MANY), { tx: client })
    pushed.catch(() => {})
    // Its first statement is under way.
    await new Promise(setImmediate)
    await client.query(statements)
    await expect(pushed).rejects.toMatchObject(isRefused)
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await client.query('ROLLBACK')
    client.release()
  },
)

test('P4: a client whose driver returns rows in another way is pushed through all the same', async () => {
  const client = await env.transaction()
  const query = async (text: string, values?: unknown[]) => (await client.query(text, values)).rows as never
  const queue = newQueue()
  expect(await lockstep.enqueue(queue, jobs(MANY), { tx: { query } })).toBe(MANY)
  await client.query('COMMIT')
  const [row] = await env.query('SELECT count(*)::int AS count FROM lockstep.jobs')
  expect(row).toEqual({ count: MANY })
  await env.query('DELETE FROM lockstep.payloads; DELETE FROM lockstep.jobs')
})

// Like behind a pooler whose connections to the server are all in transactions like the caller's.
test('P4: a push in a transaction waits for no other connection that is not to be had', async () => {
  const network = await Network.to(env.connectionString)
  const far = new Lockstep({ connectionString: network.connectionString })
  network.silence()
  const queue = newQueue()
  const client = await env.transaction()
  expect(await far.enqueue(queue, jobs(3), { tx: client })).toBe(3)
  expect(await far.enqueue(queue, { id: 'another' }, { tx: client })).toBe(1)
  await client.query('ROLLBACK')
  // The queue was created in the transaction, so it went with the transaction.
  expect(await env.query('SELECT FROM lockstep.queues WHERE name = $1', [queue.name])).toEqual([])

  network.restore()
  await vi.waitUntil(async () => {
    const rows = await env.query('SELECT FROM lockstep.queues WHERE name = $1', [queue.name])
    return rows.length > 0
  })
  await far.close()
  network.close()
})
