import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { EnqueueTransaction } from '../../src/index.ts'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { freePort } from '../../src/postgres/embedded.ts'
import { openStore, poolOn, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

/** One statement, and several. */
const COUNTS = [1, 2_500]

let env: StoreEnvironment
let testQueue: TestQueue
/** The application's pool, with one connection for the first caller. */
let pool: pg.Pool
let db: Kysely<unknown>
const undo: (() => unknown)[] = []

beforeAll(async () => {
  env = await openStore()
  pool = poolOn(env.connectionString, { max: 1 })
  db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
})
afterAll(async () => {
  await db?.destroy()
  await env?.close()
})
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
  await env.endSessions()
})

const jobs = (count: number): NewJob[] => Array.from({ length: count }, (_, i) => ({ id: `${i}` }))
const enqueue = (count: number, tx: unknown) =>
  env.lockstep.enqueue(testQueue.queue, jobs(count), { tx: tx as EnqueueTransaction })

async function isRefused(pushed: Promise<unknown>, message: RegExp): Promise<void> {
  await expect(pushed).rejects.toMatchObject({
    code: 'LOCKSTEP_BAD_TRANSACTION',
    message: expect.stringMatching(message),
  })
  expect(await testQueue.countJobs()).toBe(0)
}

/** An object that only has `query`, such as an adapter to another library. */
function adapted(client: pg.ClientBase | pg.Pool) {
  const query = (text: string, values?: unknown[]) => (client as pg.Client).query(text, values)
  return { query }
}

class DataSource {
  readonly query = adapted(pool).query
}

async function lent(): Promise<pg.PoolClient> {
  const client = await pool.connect()
  undo.push(() => client.release())
  return client
}

describe.each(COUNTS)('P4 %i jobs are not pushed as a part of what is in no transaction:', (count) => {
  test('undefined, a variable that was forgotten', async () => {
    await isRefused(enqueue(count, undefined), /^`tx` is undefined: pass the transaction, or omit the key/)
    expect(await env.lockstep.enqueue(testQueue.queue, jobs(count), {})).toBe(count)
  })

  test('a pool', async () => {
    await isRefused(enqueue(count, pool), /^`tx` is a pg Pool, .* pass the client that BEGIN was sent to/)
  })

  test('a client that was never connected, or could not be', async () => {
    const problem = /^`tx` is a pg client that is not connected: await its connect\(\) first/
    const port = await freePort()
    const client = new pg.Client({ connectionString: env.connectionString, host: '127.0.0.1', port })
    await isRefused(enqueue(count, new pg.Client(env.connectionString)), problem)
    const unreached = new pg.Client({ host: '127.0.0.1', port })
    unreached.on('error', () => {})
    await expect(unreached.connect()).rejects.toThrow('ECONNREFUSED')
    await isRefused(enqueue(count, unreached), problem)
    await client.end()
  })

  test('a client that was ended', async () => {
    const tx = await env.transaction()
    await tx.end()
    await isRefused(enqueue(count, tx), /^`tx` is a pg client that has been ended/)
  })

  test.each([
    ['has not begun one', []],
    ['has committed it', ['BEGIN', 'COMMIT']],
    ['has rolled it back', ['BEGIN', 'SELECT 1 / 0', 'ROLLBACK']],
  ])('a client that %s', async (_name, statements) => {
    const tx = await env.session()
    for (const text of statements) await tx.query(text).catch(() => {})
    await isRefused(enqueue(count, tx), /^`tx` is a pg client that is in no transaction: .* send BEGIN on it/)
  })

  test.each([
    ['after its transaction', 'COMMIT'],
    ['in the middle of it', 'SELECT'],
  ])('a client that was released to its pool %s', async (_name, last) => {
    const client = await pool.connect()
    await client.query('BEGIN')
    await client.query(last)
    client.release()
    await isRefused(enqueue(count, client), /^`tx` is a pg client that was released to its pool/)
    await pool.query('ROLLBACK')
  })

  test.each([
    ['has begun none', []],
    ['has committed it', ['BEGIN', 'COMMIT']],
    ['has rolled it back', ['BEGIN', 'CREATE TEMPORARY TABLE mine ()', 'ROLLBACK']],
  ])('another library’s, which %s', async (_name, statements) => {
    const client = await env.session()
    for (const text of statements) await client.query(text)
    await isRefused(enqueue(count, adapted(client)), /^`tx`, an object, is in no transaction/)
    await isRefused(enqueue(count, new DataSource()), /^`tx`, a DataSource, is in no transaction/)
  })

  test('a Kysely transaction that has ended', async () => {
    let ended: Transaction<unknown> | undefined
    await db.transaction().execute(async (tx) => {
      ended = tx
    })
    await isRefused(enqueue(count, ended), /^`tx` is a Kysely transaction that has ended: pass the trx/)
    for (const end of ['commit', 'rollback'] as const) {
      const tx = await db.startTransaction().execute()
      await tx[end]().execute()
      await isRefused(enqueue(count, tx), /^`tx` is a Kysely transaction that has ended: pass the trx/)
    }
    await isRefused(enqueue(count, db), /^`tx` is a Kysely instance: pass the trx that/)
    await isRefused(
      enqueue(count, db.transaction()),
      /^`tx` is a builder of Kysely transactions: pass the trx that/,
    )
  })

  test('an object with a transaction in it, such as the options of Sequelize', async () => {
    const transaction = await env.transaction()
    await isRefused(
      enqueue(count, { logging: false, transaction }),
      /^`tx` is an object with a Client in it: pass that, its `transaction`$/,
    )
  })

  test('Knex’ transactionProvider(), a function', async () => {
    const message = /^`tx` is a function: .* transactionProvider\(\), pass what the function returns/
    await isRefused(
      enqueue(count, async () => env.transaction()),
      message,
    )
  })

  test.each([
    ['nothing', null, 'null'],
    ['text', 'BEGIN', '"BEGIN"'],
    ['a function of no library', () => {}, 'a function'],
    ['a client of Prisma’s', new (class PrismaClient {})(), 'a PrismaClient'],
    ['drizzle’s `db`, whose `query` is no function', { query: {} }, 'an object'],
  ])('%s', async (_name, tx, given) => {
    await isRefused(
      enqueue(count, tx),
      new RegExp(`^\`tx\` is ${given}: pass a transaction of pg, Kysely, Drizzle,`),
    )
  })

  test('the promise of a transaction', async () => {
    await isRefused(enqueue(count, Promise.resolve({})), /^`tx` is a promise: await it first/)
  })

  test('a transaction that is READ ONLY', async () => {
    for (const begin of ['BEGIN READ ONLY', 'BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE']) {
      const tx = await env.transaction(begin)
      await isRefused(
        enqueue(count, tx),
        /^`tx`, a Client, is READ ONLY: begin its transaction with BEGIN READ WRITE$/,
      )
    }
    const pushed = db
      .transaction()
      .setAccessMode('read only')
      .execute((tx) => enqueue(count, tx))
    await isRefused(
      pushed,
      /^`tx`, a Kysely transaction, is READ ONLY: begin it with .*setAccessMode\('read write'\)$/,
    )
  })
})

describe.each(COUNTS)('P4 %i jobs are pushed as a part of', (count) => {
  const isPartOf = async (tx: { query(text: string): Promise<unknown> }) => {
    expect(await testQueue.countJobs()).toBe(0)
    await tx.query('COMMIT')
    expect(await testQueue.countJobs()).toBe(count)
  }

  test.each([
    ...['BEGIN', 'START TRANSACTION READ WRITE', 'BEGIN ISOLATION LEVEL REPEATABLE READ'],
    ...['BEGIN ISOLATION LEVEL SERIALIZABLE', 'BEGIN; SAVEPOINT a; SAVEPOINT b', 'BEGIN; SELECT 1'],
    'BEGIN; SAVEPOINT a; CREATE TEMPORARY TABLE mine () ON COMMIT DROP; RELEASE a',
    'BEGIN; SAVEPOINT a; CREATE TEMPORARY TABLE mine (); ROLLBACK TO a',
    'SELECT 1; BEGIN; SET LOCAL search_path = nowhere',
    'BEGIN; SET LOCAL default_transaction_read_only = on',
  ])('what was begun with %s, by whatever runs its statements', async (begin) => {
    for (const wrap of [(client: pg.ClientBase) => client, adapted]) {
      const tx = await lent()
      await tx.query(begin)
      expect(await enqueue(count, wrap(tx))).toBe(count)
      await isPartOf(tx)
      await env.query('DELETE FROM lockstep.jobs')
      undo.splice(0).map((step) => step())
    }
  })

  test('a transaction whose BEGIN was not awaited', async () => {
    const tx = await env.session()
    const begun = tx.query('BEGIN')
    expect(await enqueue(count, tx)).toBe(count)
    await begun
    await isPartOf(tx)
  })

  test('a client’s that is still connecting', async () => {
    const tx = new pg.Client(env.connectionString)
    undo.push(() => tx.end())
    const [connected, begun] = [tx.connect(), tx.query('BEGIN')]
    expect(await enqueue(count, tx)).toBe(count)
    await Promise.all([connected, begun])
    await isPartOf(tx)
  })

  test('a transaction of a library that puts each statement into a savepoint', async () => {
    const client = await env.transaction()
    const query = async (text: string, values?: unknown[]) => {
      await client.query('SAVEPOINT driver')
      const result = await client.query(text, values)
      await client.query('RELEASE driver')
      return result
    }
    // Our savepoint is around several statements, so the library must not release it inside one of its own.
    if (count === 1) expect(await enqueue(count, { query })).toBe(count)
    else await enqueue(count, adapted(client))
    await isPartOf(client)
  })

  test('a transaction of a client that names and prepares its statements', async () => {
    const client = await env.transaction()
    const query = (text: string, values?: unknown[]) =>
      values?.length ? client.query({ name: text.slice(0, 60), text, values }) : client.query(text)
    expect(await enqueue(count, { query })).toBe(count)
    expect(await env.lockstep.enqueue(testQueue.queue, jobs(count), { tx: { query } })).toBe(count)
    await client.query('COMMIT')
    expect(await testQueue.countPayloads()).toBe(count)
    await isRefused(
      enqueue(count, { query }).finally(() => env.query('DELETE FROM lockstep.jobs')),
      /no transaction/,
    )
  })

  test('a Kysely transaction, also in a savepoint', async () => {
    await db.transaction().execute((tx) => enqueue(count, tx))
    expect(await testQueue.countJobs()).toBe(count)
    const tx = await db.startTransaction().execute()
    const inner = await tx.savepoint('mine').execute()
    await env.lockstep.enqueue(testQueue.queue, { id: 'undone' }, { tx: inner })
    await inner.rollbackToSavepoint('mine').execute()
    await env.lockstep.enqueue(testQueue.queue, { id: 'kept' }, { tx })
    await tx.commit().execute()
    expect(await testQueue.countJobs()).toBe(count + 1)
  })

  test('a transaction that is the first to use its queue', async () => {
    const queue = { ...testQueue.queue, name: `new ${count}` }
    const tx = await env.transaction()
    expect(await env.lockstepAnew().enqueue(queue, jobs(count), { tx })).toBe(count)
    await tx.query('COMMIT')
    const rows = await env.query('SELECT FROM lockstep.waiting WHERE queue = $1', [queue.name])
    expect(rows).toHaveLength(count)
  })
})

test.each(COUNTS)(
  'P4 %i jobs: whether there is a transaction is known in any language of the server',
  async (count) => {
    const other = await openStore()
    undo.push(() => other.close())
    // The server does not say what is expected in English, as if it spoke another language.
    const bodies = await other.query<{ text: string }>(
      `SELECT pg_get_functiondef(oid) AS text FROM pg_proc
     WHERE pronamespace = 'lockstep'::regnamespace AND prosrc LIKE '%invalid transaction termination%'`,
    )
    expect(bodies).toHaveLength(2)
    for (const { text } of bodies)
      await other.query(text.replaceAll('invalid transaction termination', 'ungültiges Transaktionsende'))
    const push = (tx: pg.Client) => other.lockstep.enqueue(testQueue.queue, jobs(count), { tx: adapted(tx) })
    await expect(push(await other.session())).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_TRANSACTION' })
    expect(await other.query('SELECT FROM lockstep.jobs')).toEqual([])
    expect(await push(await other.transaction())).toBe(count)
  },
)

test('a push in a transaction asks the server once', async () => {
  const client = await env.transaction()
  const statements: string[] = []
  const query = (text: string, values?: unknown[]) => {
    statements.push(text)
    return client.query(text, values)
  }
  // The Lockstep asks once, over another connection, where its own database is and whether the queue exists.
  await env.lockstep.enqueue(testQueue.queue, { id: 'first' }, { tx: client })
  await env.lockstep.enqueue(testQueue.queue, jobs(1), { tx: { query } })
  await env.lockstep.enqueue(testQueue.queue, jobs(1_000), { tx: { query } })
  expect(statements).toHaveLength(2)
})

describe('P4 a queue that is new, where the pool has no connection to spare,', () => {
  test('is not created outside of a transaction either', async () => {
    const own = poolOn(env.connectionString, { max: 1 })
    const client = await own.connect()
    undo.push(
      () => own.end(),
      () => client.release(),
    )
    const lockstep = new Lockstep({ pool: own })
    const pushed = lockstep.enqueue({ ...testQueue.queue, name: 'never' }, jobs(1), { tx: adapted(client) })
    await expect(pushed).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_TRANSACTION' })
    expect(await env.query(`SELECT FROM lockstep.queues WHERE name = 'never'`)).toEqual([])
  })
})
