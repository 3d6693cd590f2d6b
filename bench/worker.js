import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue, fair, Lockstep, lag, weighted } from 'pg-lockstep'

// A process that does nothing but work. In plain JavaScript, like what users run: to strip types takes 28 MB.

/** ms */
const REPORT_EVERY = 20
const SCHEDULERS = { fair, lag, weighted: () => weighted({ updates: { 0: 6, 1: 3, 2: 1 } }) }

process.once('disconnect', () => process.exit())
const [{ connectionString, slots, tuning, handler, scheduler = 'fair', fairness, tellsStarts }] = await once(
  process,
  'message',
)
/** ms */
const [shortest, longest = shortest] = [handler].flat()
let done = 0
const starts = []

const updates = defineQueue('updates', {
  ...tuning,
  fairness,
  async perform(batch) {
    if (tellsStarts) {
      const at = performance.timeOrigin + performance.now()
      for (const { seq } of [...batch.values()].flat()) starts.push([seq, at])
    }
    if (longest > 0) await sleep(shortest + Math.random() * (longest - shortest))
    for (const payloads of batch.values()) done += payloads.length
  },
})
const lockstep = new Lockstep({ connectionString })
const worker = lockstep.createWorker({ queues: [updates], slots, scheduler: SCHEDULERS[scheduler]() })
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
