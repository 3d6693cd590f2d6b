import { setTimeout as sleep } from 'node:timers/promises'
import { type ClaimedJob, type Consumer, defineQueue, Lockstep } from '../../src/index.ts'
import { append, now } from './handler-log.ts'

/** The options of a child process that consumes. All of them survive JSON. */
export interface ConsumerProcessOptions {
  readonly connectionString: string
  /** The file in which every claim is written down, as a handler's run is. */
  readonly log: string
  readonly queue: { readonly name: string; readonly maxRetryCount?: number }
  /** How many claim side by side. */
  readonly callers: number
  /** ms */
  readonly lease: number
  /** Most ms that a job takes. */
  readonly work: number
}

process.once('message', (options) => void consume(options as ConsumerProcessOptions))
process.on('disconnect', () => process.exit())

async function consume(options: ConsumerProcessOptions): Promise<void> {
  const { connectionString, queue, callers } = options
  const lockstep = new Lockstep({ connectionString })
  const definition = defineQueue(queue.name, {
    ...(queue.maxRetryCount ? { maxRetryCount: queue.maxRetryCount } : {}),
    retryIn: () => 0.02,
  })
  const consumer = lockstep.createConsumer({ queues: [definition], poll: 200 })
  process.send!({ event: 'ready', detail: { processId: 0 } })
  await Promise.all(Array.from({ length: callers }, () => takeAndSettle(consumer, options)))
}

async function takeAndSettle(consumer: Consumer, options: ConsumerProcessOptions): Promise<never> {
  const { queue, lease } = options
  for (;;) {
    const count = 1 + Math.floor(Math.random() * 4)
    const abort = Math.random() < 0.1 ? AbortSignal.timeout(Math.ceil(Math.random() * 50)) : undefined
    // A server that restarts refuses claims for a while, and a client that goes away gets nothing.
    const jobs = await consumer
      .claim({ queues: queue.name, count, lease, wait: 500, signal: abort })
      .catch(() => sleep(50).then(() => [] as ClaimedJob[]))
    await Promise.all(jobs.map((job) => settle(consumer, job, options)))
  }
}

/** Mostly completes it; else fails it, gives it back, extends its lease, or forgets it. */
async function settle(
  consumer: Consumer,
  job: ClaimedJob,
  { log, lease, work }: ConsumerProcessOptions,
): Promise<void> {
  const { queue, id, fence, payloads } = job
  const key = { process: String(process.pid), queue, id, fence }
  append(log, [{ ...key, kind: 'begin', at: now(), payloads }])
  const end = (returned: boolean) => append(log, [{ ...key, kind: 'end', at: now(), returned }])
  const dice = Math.random()
  await sleep(Math.random() * work)
  if (dice < 0.1 && (await consumer.extend(job, lease).catch(() => false))) await sleep(Math.random() * work)
  if (dice > 0.95) return end(false)
  if (dice > 0.9) {
    end(false)
    await consumer.fail(job, new Error('failed')).catch(() => {})
  } else if (dice > 0.85) {
    end(false)
    await consumer.release(job).catch(() => {})
  } else {
    end(true)
    const held = await consumer.complete(job).catch(() => undefined)
    if (held !== undefined) append(log, [{ ...key, kind: held ? 'accepted' : 'refused', at: now() }])
  }
}
