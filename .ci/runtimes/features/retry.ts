import assert from 'node:assert/strict'
import { defineQueue } from 'pg-lockstep'
import { next, open } from '../site.ts'

let runs = 0
const orders = defineQueue<string>('retry', {
  retryIn: () => 0.1,
  perform() {
    runs += 1
    if (runs === 1) throw new Error('busy')
  },
})
const lockstep = await open()
await lockstep.enqueue(orders, { id: 'order-1', payload: 'paid' })
const worker = lockstep.createWorker({ queues: [orders] })
const failed = next(worker, 'failed')
const completed = next(worker, 'completed')
await worker.start()
const [{ retryCount, error }] = await failed
assert.equal(retryCount, 0)
assert.equal((error as Error).message, 'busy')
await completed
assert.equal(runs, 2)
assert.equal(await worker.stop(), true)
await lockstep.close()
