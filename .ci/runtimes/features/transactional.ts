import assert from 'node:assert/strict'
import { defineQueue } from 'pg-lockstep'
import { next, open, openPool } from '../site.ts'

const pool = openPool()
await pool.query('CREATE TABLE written (text text)')
let runs = 0
const orders = defineQueue<string>('transactional', {
  transactional: true,
  retryIn: () => 0,
  async perform(_batch, { tx }) {
    runs += 1
    await tx.query('INSERT INTO written VALUES ($1)', [`run ${runs}`])
    if (runs === 1) throw new Error('busy')
  },
})
const lockstep = await open()
await lockstep.enqueue(orders, { id: 'order-1', payload: 'paid' })
const worker = lockstep.createWorker({ queues: [orders] })
const completed = next(worker, 'completed')
await worker.start()
await completed
assert.equal(await worker.stop(), true)
assert.deepEqual((await pool.query('SELECT text FROM written')).rows, [{ text: 'run 2' }])
await pool.end()
await lockstep.close()
