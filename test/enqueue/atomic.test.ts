import { Kysely, PostgresDialect } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { JobError } from '../../src/errors.ts'
import type { EnqueueTransaction } from '../../src/index.ts'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { openStore, poolOn, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

/** Needs more than one statement. */
const MANY = 2_500
const SEVERAL = 3

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  // The server finds this wrong in the last statement of a call, after the others have been stored.
  await env.query(`ALTER TABLE lockstep.jobs ADD CONSTRAINT refused CHECK (id <> 'z')`)
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(() => env.endSessions())

const jobs = (count: number): NewJob[] =>
  Array.from({ length: count }, (_, i) => ({ id: `${i}`, payload: i }))
const good = jobs
const bad = (count: number) => [{ id: 'z' }, ...jobs(count)]
const enqueue = (all: NewJob[], tx?: EnqueueTransaction) =>
  env.lockstep.enqueue(testQueue.queue, all, tx === undefined ? {} : { tx })
const isRefused = { message: expect.stringContaining('violates check constraint "refused"') }

test('P4: what is sent beside a call that is refused is rolled back with it, or not at all', async () => {
  const tx = await env.transaction()
  const outcomes = await Promise.allSettled([
    enqueue(bad(MANY), tx),
    enqueue([{ id: 'beside' }], tx),
    tx.query('CREATE TEMPORARY TABLE beside ()'),
    enqueue(good(MANY), tx),
  ])
  expect(outcomes.map(({ status }) => status)).toContain('rejected')
  await tx.query('COMMIT')
  const kept = await env.query(`SELECT to_regclass('beside') AS found`)
  expect([await testQueue.countJobs(), kept]).toEqual([0, [{ found: null }]])
})

describe.each([SEVERAL, MANY])('R1 P4 all of a call of %i jobs or nothing is stored', (count) => {
  test('without a transaction', async () => {
    await expect(enqueue(bad(count))).rejects.toMatchObject(isRefused)
    expect(await testQueue.countJobs()).toBe(0)
    expect(await enqueue(good(count))).toBe(count)
    expect(await testQueue.countJobs()).toBe(count)
  })

  test('through a client that has begun one', async () => {
    const tx = await env.transaction()
    await enqueue(good(count), tx)
    expect(await isInTransaction(tx)).toBe(true)
    expect(await testQueue.countJobs()).toBe(0)
    await tx.query('ROLLBACK; BEGIN')
    await enqueue(good(count), tx)
    await tx.query('COMMIT')
    expect(await testQueue.countJobs()).toBe(count)
  })

  test('through a savepoint of the caller’s, which takes back a refused call', async () => {
    const tx = await env.transaction()
    await enqueue([{ id: 'kept' }], tx)
    await tx.query('SAVEPOINT mine')
    await expect(enqueue(bad(count), tx)).rejects.toMatchObject(isRefused)
    await tx.query('ROLLBACK TO mine; COMMIT')
    expect(await testQueue.countJobs()).toBe(1)
  })

  test('through a Kysely transaction', async () => {
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: poolOn(env.connectionString) }) })
    const rolledBack = db.transaction().execute(async (tx) => {
      expect(await enqueue(good(count), tx)).toBe(count)
      throw new Error('roll back')
    })
    await expect(rolledBack).rejects.toThrow('roll back')
    expect(await testQueue.countJobs()).toBe(0)
    await db.transaction().execute((tx) => enqueue(good(count), tx))
    expect(await testQueue.countJobs()).toBe(count)
    await db.destroy()
  })

  test('through anything with query(text, values)', async () => {
    const client = await env.transaction()
    const statements: unknown[] = []
    const adapter = {
      query: (text: string, values?: unknown[]) => {
        statements.push(text)
        return client.query(text, values)
      },
    }
    await enqueue(good(count), adapter)
    await client.query('COMMIT')
    expect(statements.length).toBeGreaterThan(0)
    expect(await testQueue.countJobs()).toBe(count)
  })

  test('in a transaction that is aborted already it is a clear error', async () => {
    const tx = await env.transaction()
    await tx.query('SELECT 1 / 0').catch(() => {})
    await expect(enqueue(good(count), tx)).rejects.toMatchObject({
      name: 'DatabaseError',
      code: 'LOCKSTEP_TRANSACTION_ABORTED',
      message: expect.stringContaining('roll it back and start again'),
    })
    await tx.query('ROLLBACK')
    expect(await testQueue.countJobs()).toBe(0)
  })
})

test.each([SEVERAL, MANY])(
  'R1 a call of %i jobs that the server refuses aborts the caller’s transaction',
  async (count) => {
    const tx = await env.transaction()
    await enqueue([{ id: 'before' }], tx)
    await expect(enqueue(bad(count), tx)).rejects.toMatchObject(isRefused)
    expect(await tx.query('COMMIT')).toMatchObject({ command: 'ROLLBACK' })
    expect(await testQueue.countJobs()).toBe(0)
  },
)

test('R1 so does one of several statements of which the caller’s side gave one up', async () => {
  const client = await env.transaction()
  let pushes = 0
  const query = async (text: string, values?: unknown[]) => {
    const result = await client.query(text, values)
    if (text.includes('put_many') && ++pushes === 2) throw new Error('Query read timeout')
    return result
  }
  await expect(enqueue(good(MANY), { query })).rejects.toThrow('Query read timeout')
  expect(await client.query('COMMIT')).toMatchObject({ command: 'ROLLBACK' })
  expect(await testQueue.countJobs()).toBe(0)
})

test('R1 100,000 jobs in one call, of which the last is bad and then good', {
  tags: 'slow',
  timeout: 60_000,
}, async () => {
  const all = jobs(100_000)
  await expect(enqueue([...all, { id: '' }])).rejects.toBeInstanceOf(JobError)
  await expect(enqueue([...all, { id: 'z' }])).rejects.toMatchObject(isRefused)
  expect(await testQueue.countJobs()).toBe(0)
  expect(await enqueue(all)).toBe(100_000)
  expect(await testQueue.countJobs()).toBe(100_000)
  expect(await testQueue.countPayloads()).toBe(100_000)
})

describe('a queue that is new', () => {
  test('stays when the transaction of its first push rolls back', async () => {
    const queue = { ...testQueue.queue, name: 'new' }
    const lockstep = env.lockstepAnew()
    const tx = await env.transaction()
    await lockstep.enqueue(queue, { id: 'a' }, { tx })
    await tx.query('ROLLBACK; BEGIN')
    await lockstep.enqueue(queue, { id: 'a' }, { tx })
    await tx.query('COMMIT')
    expect(await env.query('SELECT id FROM lockstep.waiting WHERE queue = $1', ['new'])).toEqual([
      { id: 'a' },
    ])
  })

  test.each([true, false])(
    'does not need a connection of a pool whose all are in transactions; known: %s',
    async (known) => {
      const pool = poolOn(env.connectionString, { max: 2, connectionTimeoutMillis: 5_000 })
      const lockstep = new Lockstep({ pool })
      const queue = known ? testQueue.queue : { ...testQueue.queue, name: 'first of all' }
      const clients = [await pool.connect(), await pool.connect()]
      for (const [i, client] of clients.entries()) {
        await client.query('BEGIN')
        const push = lockstep.enqueue(queue, { id: `${i}` }, { tx: client })
        if (i === 0) await push.then(() => client.query('COMMIT'))
        else await push.then(() => client.query('ROLLBACK'))
        await client.query('BEGIN')
        await lockstep.enqueue(queue, { id: `again ${i}` }, { tx: client })
        await client.query('COMMIT')
      }
      for (const client of clients) client.release()
      await pool.end()
      const rows = await env.query('SELECT id FROM lockstep.waiting WHERE queue = $1 ORDER BY id', [
        queue.name,
      ])
      expect(rows).toEqual([{ id: '0' }, { id: 'again 0' }, { id: 'again 1' }])
    },
  )

  test('is a conflict worth another try for a transaction whose snapshot is older', async () => {
    const queue = { ...testQueue.queue, name: 'newer' }
    const tx = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await tx.query('SELECT FROM lockstep.queues')
    const push = () => env.lockstep.enqueue(queue, { id: 'a' }, { tx })
    await expect(push()).rejects.toMatchObject({ code: 'LOCKSTEP_CONFLICT' })
    await tx.query('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ')
    expect(await push()).toBe(1)
    await tx.query('COMMIT')
  })
})

async function isInTransaction(on: { query(text: string): Promise<unknown> }): Promise<boolean> {
  const time = 'SELECT now() = statement_timestamp() AS alone'
  const { rows } = (await on.query(time)) as { rows: { alone: boolean }[] }
  return !rows[0]!.alone
}
