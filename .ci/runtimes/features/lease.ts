import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue } from 'pg-lockstep'
import { next, open } from '../site.ts'

const LEASE = 2_000
const events: string[] = []
const orders = defineQueue<string>('lease', {
  perform() {
    // Nothing of this thread runs meanwhile: no timer, no answer of the server.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * LEASE)
  },
})
const lockstep = await open()
await lockstep.enqueue(orders, { id: 'order-1', payload: 'paid' })
// Threads of some runtimes count time from their own start: that must be as far from the process's as a lease is long.
await sleep(LEASE - performance.now())
const worker = lockstep.createWorker({ queues: [orders], lease: LEASE })
for (const event of ['leaseLost', 'refused', 'rescued'] as const) worker.on(event, () => events.push(event))
const completed = next(worker, 'completed')
await worker.start()
await completed
assert.deepEqual(events, [])
assert.equal(await worker.stop(), true)
await lockstep.close()
