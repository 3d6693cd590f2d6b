import { setTimeout as sleep } from 'node:timers/promises'
import { Lockstep } from '../../../src/index.ts'
import { silentLogger } from '../../../src/logger.ts'
import { type Handler, loadQueues } from './queues.ts'

/** The options of a worker process under load. */
export interface LoadWorkerOptions {
  readonly connectionString: string
}

/** What it reports each second, and once more when it has stopped. */
export interface Usage {
  readonly event: 'usage'
  /** Bytes. */
  readonly rss: number
  /** Bytes. */
  readonly heap: number
  /** Shards it holds. */
  readonly shards: number
  /** Payloads that handlers have done, by queue. */
  readonly done: Readonly<Record<string, number>>
}

const SLOTS = 10
/** ms that a handler takes: so long that the rate can be sustained. */
const WORK = 90
const TELL = 1_000

process.once('message', (options) => void start(options as LoadWorkerOptions))
process.on('disconnect', () => process.exit())

const done: Record<string, number> = {}
let held = 0

async function start({ connectionString }: LoadWorkerOptions): Promise<void> {
  const lockstep = new Lockstep({ connectionString, logger: silentLogger })
  const queues = [...loadQueues(countingHandler).values()]
  const worker = lockstep.createWorker({ queues, slots: SLOTS, killOnLeaseEnd: true })
  worker.on('rebalanced', ({ shards }) => {
    held = shards
  })
  process.on('message', (message) => {
    if (message === 'stop') void worker.stop().then(() => process.send!(usage(), () => process.disconnect()))
  })
  await worker.start()
  process.send!({ event: 'ready' })
  setInterval(() => process.send!(usage()), TELL)
}

function countingHandler(queue: string): Handler {
  return async (batch) => {
    await sleep(WORK)
    for (const payloads of batch.values()) done[queue] = (done[queue] ?? 0) + payloads.length
  }
}

function usage(): Usage {
  const { rss, heapUsed } = process.memoryUsage()
  return { event: 'usage', rss, heap: heapUsed, shards: held, done }
}
