import assert from 'node:assert/strict'
import { defineQueue } from 'pg-lockstep'
import { next, open, openPool } from '../site.ts'

const orders = defineQueue<string>('reconnect', { perform() {} })
const lockstep = await open()
const pool = openPool()
const worker = lockstep.createWorker({ queues: [orders], poll: 200 })
await worker.start()
const { rows } = await pool.query(
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
)
assert.ok(rows.length >= 3)
const completed = next(worker, 'completed')
// The connections of the first one are gone.
const producer = await open()
await producer.enqueue(orders, { id: 'order-1', payload: 'paid' })
await completed
assert.equal(await worker.stop(), true)
await pool.end()
await producer.close()
await lockstep.close()
