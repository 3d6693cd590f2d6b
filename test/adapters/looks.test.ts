import { drizzle } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defineQueue, type EnqueueTransaction, type Queue } from '../../src/index.ts'
import { advance, assertNotEnqueued, drain, enqueued } from '../../src/testing/index.ts'
import { createMigrated } from '../support/database.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import type { Application } from './adapter.ts'
import { LIBRARIES_HERE } from './libraries.ts'

let env: StoreEnvironment
let queue: Queue
let performed: string[]

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  performed = []
  const { name } = (await env.queue()).queue
  queue = defineQueue(name, { perform: (batch) => void performed.push(...batch.keys()) })
  await env.lockstep.enqueue(queue, { id: 'a' })
})

type Call = (tx: EnqueueTransaction, lockstep?: StoreEnvironment['lockstep']) => Promise<unknown>

const LOOKS: Readonly<Record<string, Call>> = {
  find: (tx, lockstep = env.lockstep) => lockstep.find(queue, {}, { tx }),
  findDead: (tx, lockstep = env.lockstep) => lockstep.findDead(queue, {}, { tx }),
  stats: (tx, lockstep = env.lockstep) => lockstep.stats({ tx }),
  enqueued: (tx, lockstep = env.lockstep) => enqueued(lockstep, queue, { tx }),
  assertNotEnqueued: (tx, lockstep = env.lockstep) => assertNotEnqueued(lockstep, queue, { id: 'b' }, { tx }),
}
const CHANGES: Readonly<Record<string, Call>> = {
  drain: (tx, lockstep = env.lockstep) => drain(lockstep, queue, { tx }),
  advance: (tx, lockstep = env.lockstep) => advance(lockstep, queue, 1_000, { tx }),
}
const CALLS = Object.entries({ ...LOOKS, ...CHANGES })

async function areRefused(tx: EnqueueTransaction, message: string): Promise<void> {
  for (const [name, call] of CALLS) {
    const error = await call(tx).then(
      () => `${name} was not refused`,
      (error) => error,
    )
    expect(error).toMatchObject({
      code: 'LOCKSTEP_BAD_TRANSACTION',
      message: expect.stringContaining(message),
    })
  }
}

async function isUntouched(): Promise<void> {
  expect(performed).toEqual([])
  expect(await enqueued(env.lockstep, queue)).toHaveLength(1)
  expect(await env.query('SELECT FROM lockstep.processes')).toEqual([])
}

describe.each(LIBRARIES_HERE.map((library) => [library.name, library] as const))(
  '%s: what looks, drains and lets time pass',
  (_, library) => {
    let application: Application<EnqueueTransaction>
    beforeAll(async () => {
      application = await library.open(env.connectionString)
    })
    afterAll(() => application?.close())

    test('refuses a transaction that has ended', async () => {
      let over: EnqueueTransaction
      await application.transaction(async (tx) => {
        over = tx
      })
      await areRefused(over!, '`tx`')
      await isUntouched()
    })

    test('refuses one of another database, which it leaves alone', async () => {
      const { connectionString, drop } = await createMigrated()
      const elsewhere = await library.open(connectionString)
      try {
        for (const lockstep of [env.lockstepAnew(), env.lockstep])
          for (const [, call] of CALLS) {
            const called = elsewhere.transaction((tx) => call(tx, lockstep))
            await expect(called).rejects.toMatchObject({
              code: 'LOCKSTEP_BAD_TRANSACTION',
              message: expect.stringContaining('pass a transaction of that database'),
            })
          }
      } finally {
        await elsewhere.close()
        await drop()
      }
      await isUntouched()
    })

    test('takes one that is READ ONLY to look, and to nothing else', async () => {
      const readOnly = (call: Call) =>
        application.transaction(async (tx) => {
          await application.execute(tx, 'SET TRANSACTION READ ONLY')
          return call(tx)
        })
      for (const call of Object.values(LOOKS)) await readOnly(call)
      for (const call of Object.values(CHANGES))
        await expect(readOnly(call)).rejects.toMatchObject({
          code: 'LOCKSTEP_BAD_TRANSACTION',
          message: expect.stringContaining('READ ONLY'),
        })
      await isUntouched()
    })
  },
)

describe('what is in no transaction, and does not know it, is refused:', () => {
  test('a reserved connection of postgres.js, and any object with a query', async () => {
    const sql = postgres(env.connectionString, { onnotice: () => {} })
    try {
      const reserved = await sql.reserve()
      await areRefused(
        reserved,
        'is a connection of sql.reserve() of postgres.js that is in no transaction: send BEGIN',
      )
      const query = (text: string, values: unknown[] = []) => reserved.unsafe(text, values as never[])
      await areRefused({ query }, 'is in no transaction')
      await reserved.unsafe('BEGIN')
      expect(await drain(env.lockstep, queue, { tx: { query } })).toMatchObject({ completed: 1 })
      await reserved.unsafe('ROLLBACK')
      reserved.release()
    } finally {
      await sql.end()
    }
    performed = []
    await isUntouched()
  })

  test('a Drizzle transaction over a pool that Drizzle takes for a client', async () => {
    const { pool } = env.database
    class Wrapped {
      readonly totalCount = 0
      readonly connect = () => pool.connect()
      readonly query = (text: pg.QueryConfig, values?: unknown[]) => pool.query(text, values)
    }
    await drizzle(new Wrapped() as unknown as pg.Pool).transaction((tx) =>
      areRefused(tx, 'is a Drizzle transaction over a pool that Drizzle takes for a client'),
    )
    await isUntouched()
  })

  test('each statement of a pool', async () => {
    const query = (text: string, values?: unknown[]) => env.database.pool.query(text, values)
    await areRefused({ query }, 'is in no transaction')
    await isUntouched()
  })
})

test('looking costs no lock that another look would not take', async () => {
  const tx = await env.transaction()
  await env.lockstep.find(queue, {}, { tx })
  const locks = await env.query(
    `SELECT DISTINCT mode FROM pg_locks WHERE relation = 'lockstep.queues'::regclass AND pid <> pg_backend_pid()
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  )
  expect(locks).toEqual([{ mode: 'AccessShareLock' }])
  await env.endSessions()
})
