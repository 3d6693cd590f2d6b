import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { EnqueueTransaction } from '../../src/index.ts'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { createDatabase, execute } from '../support/database.ts'
import { openStore, poolOn, type StoreEnvironment, TestQueue } from '../support/store-environment.ts'

/** One statement, and several. */
const COUNTS = [1, 2_500]

let home: StoreEnvironment
let testQueue: TestQueue
const undo: (() => unknown)[] = []

beforeAll(async () => {
  home = await openStore()
})
afterAll(() => home?.close())
beforeEach(async () => {
  testQueue = await home.queue()
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
  await home.endSessions()
})

const jobs = (count: number): NewJob[] => Array.from({ length: count }, (_, i) => ({ id: `${i}` }))
const enqueue = (count: number, tx: EnqueueTransaction, lockstep = home.lockstep) =>
  lockstep.enqueue(testQueue.queue, jobs(count), { tx })

/** Transactions in that database: of a client, of Kysely, and of an adapter to another library. */
async function transactions(connectionString: string): Promise<EnqueueTransaction[]> {
  const pool = poolOn(connectionString)
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
  const [client, other] = [await pool.connect(), await pool.connect()]
  const tx = await db.startTransaction().execute()
  undo.push(async () => {
    await tx.rollback().execute()
    for (const one of [client, other]) one.release(true)
    await db.destroy()
  })
  for (const one of [client, other]) await one.query('BEGIN')
  return [client, tx, { query: (text: string, values?: unknown[]) => other.query(text, values) }]
}

async function areRefused(count: number, connectionString: string, message: RegExp): Promise<void> {
  for (const tx of await transactions(connectionString)) {
    await expect(enqueue(count, tx)).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_TRANSACTION',
      message: expect.stringMatching(message),
    })
    if ('query' in tx) await tx.query('COMMIT')
  }
  expect(await testQueue.countJobs()).toBe(0)
}

async function numberOf(env: StoreEnvironment): Promise<string> {
  const [row] = await env.query<{ number: string }>('SELECT lockstep.installation() AS number')
  return row!.number
}

/** Gives the database the number that it would have if it had been restored from another one. */
async function takeNumber(env: StoreEnvironment, number: string): Promise<void> {
  await env.query(`CREATE OR REPLACE FUNCTION lockstep.installation() RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '${number}'::uuid`)
}

const nameIn = (connectionString: string) => new URL(connectionString).pathname.slice(1)
const advice = 'pass a transaction of that database, or use a Lockstep of the other one'

describe.each(COUNTS)('P4 %i jobs are not pushed in a transaction of another database,', (count) => {
  test('which has no schema', async () => {
    const { connectionString, drop } = await createDatabase()
    undo.push(drop)
    const problem = `the transaction is in (a database|database "${nameIn(connectionString)}" on .*:\\d+) without this release's schema`
    const end = `, not in that of its Lockstep, "${nameIn(home.connectionString)}" on .*: ${advice}$`
    await areRefused(count, connectionString, new RegExp(`^${problem}${end}`))
  })

  test('which has an older schema', async () => {
    const other = await openStore()
    undo.push(() => other.close())
    for (const name of ['put_in_transaction', 'put_many_in_transaction', 'put_many_if_same_transaction'])
      await other.query(`DROP ROUTINE lockstep.${name}`)
    await areRefused(count, other.connectionString, /without this release's schema, not in that of its/)
  })

  test.each(['which has the same schema and queue', 'which is a copy'])('%s', async (what) => {
    const other = await openStore()
    undo.push(() => other.close())
    if (what === 'which is a copy') await takeNumber(other, await numberOf(home))
    const twin = new TestQueue(
      other,
      testQueue.queue,
      await ensureQueue(other.database, testQueue.queue.name, 1),
    )
    const problem = `the transaction is in database "${nameIn(other.connectionString)}" on [\\d.]+:\\d+, not in that of its Lockstep`
    const end = `, "${nameIn(home.connectionString)}" on [\\d.]+:\\d+: ${advice}$`
    await areRefused(count, other.connectionString, new RegExp(`^${problem}${end}`))
    expect(await twin.countJobs()).toBe(0)
  })
})

describe('P4 a database that is the same', () => {
  test('is known by its name and its installation’s number, which another migration leaves alone', async () => {
    const before = await numberOf(home)
    await home.lockstep.migrate()
    expect(await numberOf(home)).toBe(before)
    // With a layout, it is migrated by itself rather than copied, and copies keep the number.
    const other = await openStore('plain')
    undo.push(() => other.close())
    expect(await numberOf(other)).not.toBe(before)
  })

  test('but was restored meanwhile costs a rollback, and no more', async () => {
    const other = await openStore()
    undo.push(() => other.close())
    const lockstep = other.lockstepAnew()
    const before = await other.transaction()
    await enqueue(1, before, lockstep)
    await before.query('ROLLBACK')
    await takeNumber(other, randomUUID())
    const tx = await other.transaction()
    await expect(enqueue(1, tx, lockstep)).rejects.toMatchObject({
      code: 'LOCKSTEP_CONFLICT',
      message: expect.stringContaining('roll the transaction back and try it again'),
    })
    await tx.query('ROLLBACK; BEGIN')
    expect(await enqueue(1, tx, lockstep)).toBe(1)
    await tx.query('COMMIT')
    expect(await other.query('SELECT id FROM lockstep.waiting')).toEqual([{ id: '0' }])
  })

  test('but has no schema any more says what to do', async () => {
    const other = await openStore()
    undo.push(() => other.close())
    const lockstep = other.lockstepAnew()
    const tx = await other.transaction()
    await enqueue(1, tx, lockstep)
    await tx.query('ROLLBACK')
    await other.query('DROP SCHEMA lockstep CASCADE')
    await tx.query('BEGIN')
    await expect(enqueue(1, tx, lockstep)).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_MISSING',
      message: expect.stringContaining('run `lockstep migrate` first'),
    })
  })
})

describe('another server', () => {
  let server: EmbeddedServer
  let lockstep: Lockstep
  let connectionString: string

  beforeAll(async () => {
    server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
    const name = nameIn(home.connectionString)
    await execute(server.connectionString, `CREATE DATABASE "${name}"`)
    connectionString = server.connectionString.replace(/\/postgres$/, `/${name}`)
    lockstep = new Lockstep({ connectionString })
    await lockstep.migrate()
  })
  afterAll(async () => {
    await lockstep?.close()
    await server?.stop()
  })

  test.each(COUNTS)('P4 gets none of %i jobs, though it has a database of the same name', async (count) => {
    await execute(connectionString, `SELECT lockstep.create_queue('${testQueue.queue.name}', 1)`)
    await areRefused(
      count,
      connectionString,
      /^the transaction is in database .*, not in that of its Lockstep/,
    )
    expect((await lockstep.stats()).total).toMatchObject({ waiting: 0 })
  })

  test('that is a replica says so, though its transactions are READ ONLY', async () => {
    const first = new pg.Client(connectionString)
    await first.connect()
    await first.query('BEGIN')
    await enqueue(1, first, lockstep)
    await first.query('ROLLBACK')
    await first.end()
    // Without a primary, the replica stays as it is.
    await server.restart({ whileDown: () => writeFile(join(server.dataDirectory, 'standby.signal'), '') })
    for (const tx of await transactions(connectionString)) {
      await expect(enqueue(1, tx, lockstep)).rejects.toMatchObject({
        code: 'LOCKSTEP_READ_ONLY',
        message: expect.stringContaining('read-only replica'),
      })
    }
  })
})
