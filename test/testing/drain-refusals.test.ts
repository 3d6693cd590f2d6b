import { drizzle } from 'drizzle-orm/node-postgres'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { transactionsOf as drizzleTransactions } from '../../src/adapters/drizzle.ts'
import { transactionsOf as kyselyTransactions } from '../../src/adapters/kysely.ts'
import { defineQueue, Lockstep, type Queue, type Transactions } from '../../src/index.ts'
import { drain, enqueued } from '../../src/testing/index.ts'
import { openStore, poolOn, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment
const undo: (() => unknown)[] = []
let queues = 0

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one()
  await env.endSessions()
  expect(await env.query('SELECT FROM lockstep.processes')).toEqual([])
})

function name(): string {
  queues += 1
  return `refused ${queues}`
}

function pool(options: pg.PoolConfig = {}): pg.Pool {
  const opened = poolOn(env.connectionString, options)
  undo.push(() => opened.end())
  return opened
}

function onKysely(): Kysely<unknown> {
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: env.connectionString }) }),
  })
  undo.push(() => db.destroy())
  return db
}

/** A queue with one job, and the runs of its handler. */
async function pushed(
  transactional: true | Transactions<unknown>,
): Promise<{ queue: Queue; runs: string[] }> {
  const runs: string[] = []
  const perform = (batch: ReadonlyMap<string, unknown>) => void runs.push(...batch.keys())
  const queue: Queue =
    transactional === true
      ? defineQueue(name(), { transactional, perform })
      : defineQueue(name(), { transactional, perform })
  await env.lockstep.enqueue(queue, { id: 'a' })
  return { queue, runs }
}

describe('a drain whose handlers’ transactions can’t begin rejects at the first try:', () => {
  test.each([
    ['the pool gives up', { connectionTimeoutMillis: 300 }, /timeout exceeded.*pass its transaction as `tx`/],
    ['it waits for ever', {}, /does not begin.*pass its transaction as `tx`, or allow the pool another one/],
  ])(
    'the test holds the only connection of their pool, and %s',
    { tags: 'slow' },
    async (_, options, told) => {
      const only = pool({ max: 1, ...options })
      const { queue, runs } = await pushed(drizzleTransactions(drizzle(only)) as Transactions<unknown>)
      const held = await only.connect()
      try {
        await expect(drain(env.lockstep, queue, { retries: true })).rejects.toMatchObject({
          code: 'LOCKSTEP_CONNECTION',
          message: expect.stringMatching(told),
        })
      } finally {
        held.release()
      }
      expect(runs).toEqual([])
      const [job] = (await env.lockstep.find(queue)).items
      expect(job).toMatchObject({ state: 'waiting', retryCount: -1 })
      expect(await drain(env.lockstep, queue)).toMatchObject({ completed: 1 })
    },
  )

  test('the library begins none', async () => {
    const refused = new Error('no')
    const { queue } = await pushed({
      async transaction() {
        throw refused
      },
    })
    await expect(drain(env.lockstep, queue)).rejects.toMatchObject({ cause: refused })
  })
})

describe('before anything is performed, a drain refuses', () => {
  async function refuses(tx: unknown, transactional: true | Transactions<unknown>, told: RegExp) {
    const { queue, runs } = await pushed(transactional)
    const first = defineQueue(name(), { perform: () => void runs.push('first') })
    await env.lockstep.enqueue(first, { id: 'first', performIn: 1 })
    await expect(drain(env.lockstep, [first, queue], { tx: tx as pg.Client })).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_TRANSACTION',
      message: expect.stringMatching(told),
    })
    expect(runs).toEqual([])
  }

  test('a transaction that shows no pg client, where handlers get one', async () => {
    const work = onKysely()
      .transaction()
      .execute((tx) =>
        refuses(
          tx,
          true,
          /get a pg client, which `tx`, a Kysely transaction, does not show: pass the queue `trans/,
        ),
      )
    await work
  })

  test('a transaction of another library than that of the handlers', async () => {
    const db = onKysely()
    const ofKysely = kyselyTransactions(db) as Transactions<unknown>
    const told =
      /get a Kysely transaction, and `tx` is a Client: drain one of the same library, or without `tx`/
    await refuses(await env.transaction(), ofKysely, told)
    const ofDrizzle = drizzleTransactions(drizzle(pool())) as Transactions<unknown>
    await db
      .transaction()
      .execute((tx) => refuses(tx, ofDrizzle, /get a Drizzle transaction, and `tx` is a Kysely transaction/))
  })
})

test.each([
  ['may only read', { options: '-c default_transaction_read_only=on' }, 'lockstep', 'LOCKSTEP_READ_ONLY'],
  ['finds no tables', {}, 'elsewhere', 'LOCKSTEP_SCHEMA_MISSING'],
])('a drain whose Lockstep %s says what to do', async (_, options, schema, code) => {
  const lockstep = new Lockstep({ pool: pool(options), schema })
  await expect(drain(lockstep, defineQueue(name(), { perform() {} }))).rejects.toMatchObject({ code })
})

describe('a drain in a transaction that is ended meanwhile rejects, and commits no more:', () => {
  test.each(['COMMIT', 'ROLLBACK'])('by a transactional handler that sends %s', async (end) => {
    const queue = defineQueue(name(), {
      transactional: true,
      perform: (_, { tx }) => tx.query(end),
    })
    await isRefused(queue)
  })

  test.each(['COMMIT', 'ROLLBACK'])(
    'by another one, that sends %s to the client of the test',
    async (end) => {
      const queue = defineQueue(name(), { perform: () => client.query(end) })
      await isRefused(queue)
    },
  )

  let client: pg.Client

  async function isRefused(queue: Queue): Promise<void> {
    await env.lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
    client = await env.transaction()
    const options = { tx: client, retries: true }
    await expect(drain(env.lockstep, queue, options)).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_TRANSACTION',
      message: expect.stringContaining('was ended during drain: leave its COMMIT and ROLLBACK to the test'),
    })
    await client.query('ROLLBACK')
    await expect(drain(env.lockstep, queue, options)).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_TRANSACTION',
    })
    expect(await enqueued(env.lockstep, queue)).toHaveLength(2)
  }
})

test('drains of one transaction may run side by side, and in a handler', async () => {
  const runs: string[] = []
  const inner = defineQueue(name(), { perform: (batch) => void runs.push(...batch.keys()) })
  const client = await env.transaction()
  const outer = defineQueue(name(), {
    transactional: true,
    perform: (_, { tx }) => drain(env.lockstep, inner, { tx }),
  })
  await env.lockstep.enqueue(inner, { id: 'in' }, { tx: client })
  await env.lockstep.enqueue(outer, { id: 'out' }, { tx: client })
  expect(await drain(env.lockstep, outer, { tx: client })).toMatchObject({ completed: 1 })
  expect(runs).toEqual(['in'])
})
