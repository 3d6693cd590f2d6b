import { describeError, legible, TimeoutError } from '../../errors.ts'
import type { TransactionalContext } from '../../handler.ts'
import type { Instruments } from '../../instruments.ts'
import type { JobInfo } from '../../job.ts'
import type { Logger } from '../../logger.ts'
import { wholeNumber } from '../../options.ts'
import { ignoreRejection } from '../../promises.ts'
import { MAX_TIMEOUT, type Queue } from '../../queue.ts'
import type { Round } from '../../store/claim.ts'
import type { KeptResult } from '../../store/results.ts'
import { runMiddleware, type ServerMiddleware } from '../middleware.ts'
import type { ServerClock } from '../schedule/server-clock.ts'
import type { Claimant } from '../settling/claimant.ts'
import { performed } from '../settling/observed.ts'
import type { Describe } from './description.ts'
import { infoOf, jobOf } from './job-in-work.ts'
import { resultsOf } from './results.ts'

/** The reason for an aborted signal if the handler is not at fault: what has not ended is released unchanged. */
export class Released extends Error {
  override readonly name = 'Released'
}

/** Knows its reason without a signal, which is costly to create and which few handlers ask for. */
export class Abort extends AbortController {
  reason: unknown

  override abort(reason: Error): void {
    this.reason ??= reason
    super.abort(reason)
  }
}

/** A batch in progress. */
export interface Performance {
  readonly queue: Queue
  readonly rounds: readonly Round[]
  readonly abort: Abort
  readonly describe: Describe
  /** What the handler has returned, by id, if the queue keeps that. */
  results?: ReadonlyMap<string, KeptResult>
  /** Whether the lease runs under which the rounds were claimed. Cheap, and accurate at this very moment. */
  holdsLease(): boolean
}

/**
 * What a handler gets as its context. What few handlers ask for is created on demand. The getters are own properties, so
 * that a copy (`{ ...context }`) has their values. They are the same functions for all contexts: an object with new getters
 * gets a hidden class of its own, which keeps everything they reference until the next full garbage collection.
 */
class Context implements TransactionalContext<unknown> {
  static readonly #SIGNAL: PropertyDescriptor & ThisType<Context> = {
    enumerable: true,
    get() {
      return this.#abort.signal
    },
  }
  static readonly #JOBS: PropertyDescriptor & ThisType<Context> = {
    enumerable: true,
    get() {
      this.#jobs ??= new Map(this.#rounds.map((round) => [round.id, infoOf(round)]))
      return this.#jobs
    },
  }

  declare readonly signal: AbortSignal
  declare readonly jobs: ReadonlyMap<string, JobInfo>
  readonly logger: Logger
  readonly tx: unknown
  readonly fail: TransactionalContext['fail']
  readonly #rounds: readonly Round[]
  readonly #abort: Abort
  #jobs: ReadonlyMap<string, JobInfo> | undefined

  constructor(
    rounds: readonly Round[],
    abort: Abort,
    logger: Logger,
    tx: unknown,
    fail: TransactionalContext['fail'],
  ) {
    this.#rounds = rounds
    this.#abort = abort
    this.logger = logger
    this.tx = tx
    this.fail = fail
    Object.defineProperty(this, 'signal', Context.#SIGNAL)
    Object.defineProperty(this, 'jobs', Context.#JOBS)
  }
}

const LATE_FAILURE =
  'context.fail was called after the batch had ended, and changes nothing: await what calls it'

export interface PerformSettings {
  readonly middleware: readonly ServerMiddleware[]
  readonly logger: Logger
  readonly instruments: Instruments
  readonly clock: ServerClock
}

/** How a batch ended: the error of each failed id; the others succeeded. */
export type Failed = ReadonlyMap<string, unknown>

const NOT_ONE: Failed = new Map()

/**
 * Runs the handler, inside its middleware, over a batch. Whatever it throws becomes the error of every id that has not
 * failed already. Past the timeout, the batch has failed however it ends (R16).
 *
 * The last step before the handler is to check the lease, whatever came before: middleware takes its time, a transaction
 * had to begin, and the process may have been stopped at any point. If others may have the ids by now, nothing begins and
 * all of it is released, whatever middleware makes of it. Nothing between that check and the handler's first line waits, so
 * only a process stopped right there begins too late.
 */
async function run(
  performance: Performance,
  { middleware, logger }: PerformSettings,
  tx: unknown,
): Promise<Failed> {
  const { queue, rounds, abort, holdsLease } = performance
  const batch = new Map<string, unknown[]>()
  for (const { id, payloads } of rounds) batch.set(id, payloads)
  let failed: Map<string, unknown> | undefined
  let over = false
  const context = new Context(rounds, abort, logger, tx, (id, error) => {
    if (!batch.has(id)) throw new Error(`context.fail: the batch has no id "${id}"`)
    // If no one awaits the caller, an error thrown here would end the process, with everything it has in progress.
    if (over) logger.warn({ queue: queue.name, id, error: describeError(error) }, LATE_FAILURE)
    failed ??= new Map()
    failed.set(id, legible(error))
  })
  const timeout = new Timeout()
  let late: Released | undefined
  let returned: unknown
  const handle = () => {
    if (holdsLease()) {
      returned = queue.perform!(batch, context)
      return returned
    }
    late = new Released('the lease ended before the handler began')
    abort.abort(late)
    throw late
  }
  try {
    timeout.start(timeoutOf(queue, rounds), abort)
    if (middleware.length === 0) await handle()
    else await runMiddleware(middleware, { queue, batch, context }, handle)
    if (!timeout.error && !late)
      return queue.keepResult === undefined ? (failed ?? NOT_ONE) : keepResults(performance, returned, failed)
  } catch (thrown) {
    failed ??= new Map()
    const error = timeout.error ?? legible(thrown)
    for (const { id } of rounds) if (!failed.has(id)) failed.set(id, error)
    return failed
  } finally {
    over = true
    timeout.stop()
  }
  return new Map(rounds.map(({ id }) => [id, timeout.error ?? late]))
}

/** What can't be stored is a failure, told in time: whoever waits would wait in vain. */
async function keepResults(
  performance: Performance,
  returned: unknown,
  failed: Failed = NOT_ONE,
): Promise<Failed> {
  const kept = await resultsOf(performance, returned, failed)
  performance.results = kept.results
  return kept.failed.size === 0 ? failed : new Map([...failed, ...kept.failed])
}

/** Like `run`, and reports to instruments. */
export function perform(
  performance: Performance,
  claimant: Claimant,
  settings: PerformSettings,
  tx: unknown,
): Promise<Failed> {
  const { instruments, clock } = settings
  if (!instruments.hears('perform')) return run(performance, settings, tx)
  const work = () => run(performance, settings, tx)
  const begun = performed(claimant, performance.rounds, clock.now())
  return instruments.watch('perform', begun, work, (failed) => ({ failed: new Map(failed) }))
}

class Timeout {
  error: TimeoutError | undefined
  #timer: NodeJS.Timeout | undefined

  start(timeout: number | undefined, abort: Abort): void {
    if (timeout === undefined) return
    this.#timer = setTimeout(() => {
      this.error = new TimeoutError(timeout)
      abort.abort(this.error)
    }, timeout)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

/** ms for a batch: the longest of its jobs, if they have their own. */
function timeoutOf({ name, timeout }: Queue, rounds: readonly Round[]): number | undefined {
  if (typeof timeout !== 'function') return timeout
  const timeouts = rounds.map((round) => timeout(jobOf(round)))
  for (const one of timeouts) ignoreRejection(one)
  if (timeouts.includes(undefined)) return undefined
  return Math.max(...timeouts.map((one) => wholeNumber(one!, 1, MAX_TIMEOUT, `queue "${name}": timeout`)))
}
