import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue, Lockstep } from 'pg-lockstep'

// A process that does nothing but work. In plain JavaScript, like what users run: to strip types takes 28 MB.

/** ms */
const REPORT_EVERY = 20

process.once('disconnect', () => process.exit())
const [{ connectionString, slots, tuning, handler, tellsStarts }] = await once(process, 'message')
let done = 0
const starts = []

const updates = defineQueue('updates', {
  ...tuning,
  async perform(batch) {
    if (tellsStarts) {
      const at = performance.timeOrigin + performance.now()
      for (const { seq } of [...batch.values()].flat()) starts.push([seq, at])
    }
    if (handler > 0) await sleep(handler)
    for (const payloads of batch.values()) done += payloads.length
  },
})
const lockstep = new Lockstep({ connectionString })
const worker = lockstep.createWorker({ queues: [updates], slots })
await worker.start()

const report = (sent) =>
  process.send({ done, rss: process.resourceUsage().maxRSS * 1024, starts: starts.splice(0) }, sent)
report()
setInterval(() => report(), REPORT_EVERY)
await once(process, 'message')
await worker.stop()
await lockstep.close()
// To exit at once would lose what is on its way.
report(() => process.exit())
