import assert from 'node:assert/strict'
import { defineQueue } from 'pg-lockstep'
import { assertEnqueued, assertNotEnqueued } from 'pg-lockstep/testing'
import postgres from 'postgres'
import { connectionString, open } from '../site.ts'

const orders = defineQueue<string>('transactions-postgres-js')
const lockstep = await open()
const sql = postgres(connectionString, { max: 1 })
const rolledBack = sql.begin(async (tx) => {
  await lockstep.enqueue(orders, { id: 'order-1', payload: 'ROLLBACK' }, { tx })
  throw new Error('no')
})
await assert.rejects(rolledBack, /^Error: no$/)
await assertNotEnqueued(lockstep, orders)
await sql.begin((tx) => lockstep.enqueue(orders, { id: 'order-1', payload: 'COMMIT' }, { tx }))
await assertEnqueued(lockstep, orders, { id: 'order-1', payload: 'COMMIT' })
await sql.end()
await lockstep.close()
