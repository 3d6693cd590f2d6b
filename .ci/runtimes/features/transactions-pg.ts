import { defineQueue } from 'pg-lockstep'
import { assertEnqueued, assertNotEnqueued } from 'pg-lockstep/testing'
import { open, openPool } from '../site.ts'

const orders = defineQueue<string>('transactions-pg')
const lockstep = await open()
const pool = openPool()
const client = await pool.connect()
for (const end of ['ROLLBACK', 'COMMIT']) {
  await client.query('BEGIN')
  await lockstep.enqueue(orders, { id: 'order-1', payload: end }, { tx: client })
  await client.query(end)
  if (end === 'ROLLBACK') await assertNotEnqueued(lockstep, orders)
}
await assertEnqueued(lockstep, orders, { id: 'order-1', payload: 'COMMIT' })
client.release()
await pool.end()
await lockstep.close()
