import assert from 'node:assert/strict'
import { Kysely, PostgresDialect } from 'kysely'
import { defineQueue } from 'pg-lockstep'
import { assertEnqueued, assertNotEnqueued } from 'pg-lockstep/testing'
import { open, openPool } from '../site.ts'

const orders = defineQueue<string>('transactions-kysely')
const lockstep = await open()
const db = new Kysely({ dialect: new PostgresDialect({ pool: openPool() }) })
const rolledBack = db.transaction().execute(async (tx) => {
  await lockstep.enqueue(orders, { id: 'order-1', payload: 'ROLLBACK' }, { tx })
  throw new Error('no')
})
await assert.rejects(rolledBack, /^Error: no$/)
await assertNotEnqueued(lockstep, orders)
await db.transaction().execute((tx) => lockstep.enqueue(orders, { id: 'order-1', payload: 'COMMIT' }, { tx }))
await assertEnqueued(lockstep, orders, { id: 'order-1', payload: 'COMMIT' })
await db.destroy()
await lockstep.close()
