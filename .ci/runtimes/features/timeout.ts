import assert from 'node:assert/strict'
import { once } from 'node:events'
import { defineQueue } from 'pg-lockstep'
import { next, open } from '../site.ts'

const slow = defineQueue<string>('timeout', {
  timeout: 100,
  maxRetryCount: 0,
  async perform(_batch, { signal }) {
    await once(signal, 'abort')
    throw signal.reason
  },
})
const lockstep = await open()
await lockstep.enqueue(slow, { id: 'order-1', payload: 'paid' })
const worker = lockstep.createWorker({ queues: [slow] })
const died = next(worker, 'died')
await worker.start()
const [{ payload, error }] = await died
assert.equal(payload, 'paid')
assert.equal((error as { code?: string }).code, 'LOCKSTEP_TIMEOUT')
assert.equal(await worker.stop(), true)
await lockstep.close()
