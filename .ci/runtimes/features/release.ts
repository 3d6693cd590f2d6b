import assert from 'node:assert/strict'
import { defineQueue } from 'pg-lockstep'
import { assertEnqueued } from 'pg-lockstep/testing'
import { next, open } from '../site.ts'

const stubborn = defineQueue<string>('release', { perform: () => new Promise(() => {}) })
const lockstep = await open()
await lockstep.enqueue(stubborn, { id: 'order-1', payload: 'paid' })
const worker = lockstep.createWorker({ queues: [stubborn], shutdownTimeout: 0 })
const started = next(worker, 'started')
await worker.start()
await started
assert.equal(await worker.stop(), false)
assert.equal(worker.releaseNow(), true)
await assertEnqueued(lockstep, stubborn, { id: 'order-1' })
process.exit(0)
