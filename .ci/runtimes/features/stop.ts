import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue } from 'pg-lockstep'
import { assertEnqueued } from 'pg-lockstep/testing'
import { next, open } from '../site.ts'

const ended: string[] = []
const orders = defineQueue<string>('stop', {
  async perform(batch, { signal }) {
    // Long enough that stop() comes before its end.
    await sleep(300)
    assert.equal(signal.aborted, false)
    ended.push(...batch.keys())
  },
})
const lockstep = await open()
await lockstep.enqueue(orders, { id: 'order-1', payload: 'paid' })
const worker = lockstep.createWorker({ queues: [orders], slots: 1 })
const started = next(worker, 'started')
await worker.start()
await started
await lockstep.enqueue(orders, { id: 'order-2', payload: 'paid' })
assert.equal(await worker.stop(), true)
assert.deepEqual(ended, ['order-1'])
await assertEnqueued(lockstep, orders, { id: 'order-2' }, { times: 1 })
assert.ok((await lockstep.processes()).every(({ processId }) => processId !== worker.processId))
await lockstep.close()
