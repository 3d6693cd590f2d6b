import { LockstepError, OptionError } from '../errors.ts'
import type { Instrumentation } from '../instrumentation.ts'
import type { Logger } from '../logger.ts'
import {
  optionalFunction,
  optionalFunctions,
  rejectUnknownOptions,
  show,
  trueOrFalse,
  wholeNumber,
} from '../options.ts'
import type { WorkerConfigs } from '../postgres/access.ts'
import { isQueue, type Queue } from '../queue.ts'
import { dynamic, type Splitter } from './assignment/splitter.ts'
import type { ServerMiddleware } from './middleware.ts'
import { fair } from './schedule/fair.ts'
import { checkScheduler, type Scheduler } from './schedule/scheduler.ts'

export interface WorkerOptions {
  /** The queues to serve, in definition order. Each needs a handler. */
  readonly queues: readonly Queue[]
  /** Units of concurrency. Default 5. */
  readonly slots?: number
  /** Picks which lane of a shard a slot serves next. Default `fair()`. */
  readonly scheduler?: Scheduler
  /** Assigns shards to processes and slots. Default `dynamic()`. */
  readonly splitter?: Splitter
  /** Runs around every `perform`; the first is outermost. Default none. */
  readonly middleware?: readonly ServerMiddleware[]
  /**
   * ms between regular full looks; up to six times as long while the worker is at rest and hears wake-ups. Default 1,000.
   */
  readonly poll?: number
  /** ms between comparisons of processes and shards. Processes take turns; each makes at least every tenth. Default 500. */
  readonly rebalanceInterval?: number
  /** ms that the process counts as alive without a sign of life. It keeps its claims for that long. Default 10,000. */
  readonly lease?: number
  /** ms that running handlers get to finish at `stop()` before their signals are aborted. Default 25,000. */
  readonly shutdownTimeout?: number
  /**
   * Kill the process if handlers still run when a tenth of a lost lease is left. For processes that do nothing else.
   * Default false.
   */
  readonly killOnLeaseEnd?: boolean
  /**
   * Returns the text to store for an error, with the job and in the morgue: to shorten it, or to leave out what no one
   * should read there. At most 8,000 characters are kept. If it throws or returns no text, only the class of the error is
   * stored. Events and `context.logger` get the error unchanged. Default: its stack and those of its two nearest causes, or
   * what was thrown as text.
   */
  formatError?(error: unknown): string
}

/** Where and how a worker reaches the database. */
export interface WorkerHome extends WorkerConfigs {
  readonly schema: string
  readonly logger: Logger
  readonly instrumentation: readonly Instrumentation[]
}

/** The options with every default filled in. */
export type WorkerSettings = Required<Omit<WorkerOptions, 'formatError'>> & Pick<WorkerOptions, 'formatError'>

const DEFAULT_SLOTS = 5
const DEFAULT_POLL = 1_000
const DEFAULT_REBALANCE_INTERVAL = 500
const DEFAULT_LEASE = 10_000
const DEFAULT_SHUTDOWN_TIMEOUT = 25_000
const A_DAY = 24 * 3600 * 1000

const OPTIONS = [
  'queues',
  'slots',
  'scheduler',
  'splitter',
  'middleware',
  'poll',
  'rebalanceInterval',
  'lease',
  'shutdownTimeout',
  'killOnLeaseEnd',
  'formatError',
]

/** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` for queues that can't be served */
export function workerSettings(options: WorkerOptions): WorkerSettings {
  rejectUnknownOptions(options, OPTIONS, 'worker')
  const whole = (key: keyof WorkerOptions, min: number, max: number, fallback: number) =>
    wholeNumber(options[key] ?? fallback, min, max, `worker: ${key}`)
  return {
    queues: checkQueues(options.queues),
    slots: whole('slots', 1, 1_000, DEFAULT_SLOTS),
    scheduler: checkScheduler(options.scheduler ?? fair()),
    splitter: checkSplitter(options.splitter ?? dynamic()),
    middleware: optionalFunctions(options.middleware, 'worker: middleware'),
    poll: whole('poll', 10, A_DAY, DEFAULT_POLL),
    rebalanceInterval: whole('rebalanceInterval', 50, 60_000, DEFAULT_REBALANCE_INTERVAL),
    lease: whole('lease', 500, A_DAY, DEFAULT_LEASE),
    shutdownTimeout: whole('shutdownTimeout', 0, A_DAY, DEFAULT_SHUTDOWN_TIMEOUT),
    killOnLeaseEnd: trueOrFalse(options.killOnLeaseEnd ?? false, 'worker: killOnLeaseEnd'),
    formatError: optionalFunction(options.formatError, 'worker: formatError'),
  }
}

function checkSplitter(splitter: Splitter): Splitter {
  if (typeof splitter?.share === 'function') return splitter
  throw new OptionError(
    'worker: splitter must be allShards(), byNode(nodes, node), dynamic(), or an object with a share() of your own',
  )
}

/** @throws LockstepError `LOCKSTEP_BAD_QUEUE` for queues that can't be served */
export function checkQueues(queues: readonly Queue[]): readonly Queue[] {
  if (!Array.isArray(queues) || queues.length === 0)
    throw badQueue('a worker needs at least one queue in `queues`')
  const names = new Set<string>()
  for (const queue of queues) {
    if (!isQueue(queue)) throw badQueue(`\`queues\` takes what defineQueue() returns, not ${show(queue)}`)
    if (names.has(queue.name)) throw badQueue(`queue "${queue.name}" is defined twice: give one another name`)
    if (!queue.perform) throw badQueue(`queue "${queue.name}" has no \`perform\`: a worker needs a handler`)
    names.add(queue.name)
  }
  return queues
}

function badQueue(message: string): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_QUEUE', message)
}
