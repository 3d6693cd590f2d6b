import { setTimeout as sleep } from 'node:timers/promises'
import { Lockstep } from '../../src/index.ts'
import { Diary } from '../support/diary.ts'
import { loggerBeside } from './log.ts'
import { clusterQueues, type Work } from './queues.ts'

/** The options of a worker process. All of them survive JSON. */
export interface WorkerOptions {
  /** Its name in the log of handlers. */
  readonly name: string
  readonly log: string
  readonly connectionString: string
  /** For when the other URL is that of a pooler. */
  readonly directUrl?: string
  /** ms. */
  readonly lease: number
  readonly slots?: number
  /** ms. */
  readonly rebalanceInterval?: number
  /** ms. */
  readonly poll?: number
}

/** What the next handler to begin does first: block the event loop, or ignore its signal, for this many ms. */
export type WorkerCommand =
  | 'stop'
  | { readonly kind: 'block'; readonly for: number }
  | { readonly kind: 'ignore'; readonly for: number }

const REBALANCE_INTERVAL = 250
const POLL = 500
const SLOTS = 3
const SHUTDOWN = 2_000

process.once('message', (options) => void start(options as WorkerOptions))
process.on('disconnect', () => process.exit())

async function start(options: WorkerOptions): Promise<void> {
  const { name, log, connectionString, directUrl, lease } = options
  const { slots = SLOTS, rebalanceInterval = REBALANCE_INTERVAL, poll = POLL } = options
  const diary = new Diary(name, log)
  const queues = Object.values(clusterQueues((queue, work) => diary.around(queue, disturbed(work))))
  const lockstep = new Lockstep({
    connectionString,
    ...(directUrl && { directUrl }),
    logger: loggerBeside(log, name),
  })
  const worker = lockstep.createWorker({
    queues,
    middleware: [diary.asking],
    slots,
    lease,
    rebalanceInterval,
    poll,
    shutdownTimeout: SHUTDOWN,
    killOnLeaseEnd: true,
  })
  diary.hear(worker)
  process.on('message', (message: WorkerCommand) => {
    if (message === 'stop') void worker.stop().then(() => process.disconnect())
    else commands.push(message)
  })
  await worker.start()
  process.send!({ event: 'ready' })
}

const commands: Exclude<WorkerCommand, 'stop'>[] = []

/** Each command is for one handler. */
function disturbed(work: Work): Work {
  return async (batch, context) => {
    const command = commands.shift()
    if (command?.kind === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, command.for)
    if (command?.kind === 'ignore') await sleep(command.for)
    await work(batch, context)
  }
}
