import assert from 'node:assert/strict'
import { type Batch, defineQueue } from 'pg-lockstep'
import { transactionsOf } from 'pg-lockstep/postgres-js'
import postgres from 'postgres'
import { connectionString, next, open } from '../site.ts'

const sql = postgres(connectionString, { max: 2 })
await sql`CREATE TABLE written_by_postgres_js (text text)`
let runs = 0
const orders = defineQueue('transactional-postgres-js', {
  transactional: transactionsOf(sql),
  retryIn: () => 0,
  async perform(_batch: Batch<string>, { tx }) {
    runs += 1
    await tx`INSERT INTO written_by_postgres_js VALUES (${`run ${runs}`})`
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
assert.deepEqual([...(await sql`SELECT text FROM written_by_postgres_js`)], [{ text: 'run 2' }])
await sql.end()
await lockstep.close()
