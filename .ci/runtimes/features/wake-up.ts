import assert from 'node:assert/strict'
import { once } from 'node:events'
import { defineQueue } from 'pg-lockstep'
import { open, within } from '../site.ts'

const orders = defineQueue<string>('wake-up', { perform() {} })
const lockstep = await open()
// So rarely that only a wake-up can start what is pushed.
const worker = lockstep.createWorker({ queues: [orders], poll: 600_000 })
await worker.start()
for (const id of ['order-1', 'order-2']) {
  const completed = once(worker, 'completed')
  await lockstep.enqueue(orders, { id, payload: 'paid' })
  await within(completed)
}
assert.equal(await worker.stop(), true)
await lockstep.close()
