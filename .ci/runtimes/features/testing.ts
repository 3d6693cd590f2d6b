import assert from 'node:assert/strict'
import { defineQueue } from 'pg-lockstep'
import { assertEnqueued, assertNotEnqueued, drain } from 'pg-lockstep/testing'
import { open, openPool } from '../site.ts'

const seen: string[] = []
const orders = defineQueue<string>('testing', {
  perform(batch) {
    for (const payloads of batch.values()) seen.push(...payloads)
  },
})
const lockstep = await open()
await lockstep.enqueue(orders, { id: 'order-1', payload: 'paid', score: 2 })
await lockstep.enqueue(orders, { id: 'order-1', payload: 'created', score: 1 })
await assertEnqueued(lockstep, orders, { id: 'order-1' })
assert.deepEqual(await drain(lockstep, orders), {
  completed: 1,
  snoozed: 0,
  dropped: 0,
  expired: 0,
  failed: [],
})
assert.deepEqual(seen, ['created', 'paid'])

const pool = openPool()
const client = await pool.connect()
await client.query('BEGIN')
await lockstep.enqueue(orders, { id: 'order-2', payload: 'new' }, { tx: client })
await drain(lockstep, orders, { tx: client })
assert.deepEqual(seen, ['created', 'paid', 'new'])
await client.query('ROLLBACK')
await assertNotEnqueued(lockstep, orders)
client.release()
await pool.end()
await lockstep.close()
