import type { EnqueueTransaction } from '../adapters/enqueue-transaction.ts'
import { LockstepError, OptionError } from '../errors.ts'
import type { Instruments } from '../instruments.ts'
import type { NewJob } from '../job.ts'
import type { Logger } from '../logger.ts'
import { rejectUnknownOptions, show, trueOrFalse } from '../options.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { UnderWay } from '../promises.ts'
import { isQueue, type Queue } from '../queue.ts'
import { type Insistence, insistenceOf, PATIENCE } from '../store/insistence.ts'
import type { IdempotencyKey } from '../store/keys.ts'
import { waitingAtMost } from '../store/patience.ts'
import { type PushedJob, push, pushWithin } from '../store/push.ts'
import { roundOf } from '../store/results.ts'
import { type CheckedCall, checkBySchema, checkCall } from './call.ts'
import { inChunks, inLockOrder } from './chunks.ts'
import { type Entered, enter, type Purpose } from './entered.ts'
import { waitingFor } from './held.ts'
import type { Joined } from './joined.ts'
import { Joining } from './joining.ts'
import { KnownHome } from './known-home.ts'
import { KnownQueues, type QueueToEnsure } from './known-queues.ts'
import { type ClientMiddleware, runMiddleware } from './middleware.ts'
import { type PushedOnce, PushesOnce } from './once.ts'
import { PushBatcher } from './push-batcher.ts'
import { toCallersError } from './refusal.ts'
import { stamped } from './stamp.ts'
import { UntoldTenants, withTenants } from './tenants.ts'
import { joinTransaction } from './transaction.ts'
import { requireObject } from './validation.ts'

export interface EnqueueOptions {
  /**
   * The transaction to push in: the jobs exist if and only if it commits. Rejects a value that is in no transaction,
   * including `undefined`.
   */
  readonly tx?: EnqueueTransaction
  /**
   * With `tx`: false sends no wake-ups for any push of the transaction, so that it can be prepared (two-phase
   * commit); workers find the jobs at their next look. Default true.
   */
  readonly wake?: boolean
}

const CLOSED = 'enqueue was called after close(): create another Lockstep, or close it later'

const DROPPED = 'a middleware has dropped the job, so no round will have a result'

/** What names the result of a push. */
export interface PushedForResult {
  readonly id: string
  /** Text for `result`: which round takes the payload. */
  readonly round: string
}

/** Pushes jobs: either all jobs of a call or none. */
export class Enqueuer {
  readonly #database: Database
  readonly #home: KnownHome
  readonly #middleware: readonly ClientMiddleware[]
  readonly #instruments: Instruments
  readonly #queues: KnownQueues
  readonly #pushBatcher: PushBatcher
  readonly #insistence: Insistence
  readonly #once: PushesOnce
  readonly #joining: Joining
  readonly #untoldTenants: UntoldTenants
  readonly #underWay = new UnderWay()
  #closed = false

  constructor(
    database: Database,
    middleware: readonly ClientMiddleware[],
    instruments: Instruments,
    logger: Logger,
  ) {
    this.#database = database
    this.#home = new KnownHome(database)
    this.#middleware = middleware
    this.#instruments = instruments
    this.#queues = new KnownQueues(database)
    this.#pushBatcher = new PushBatcher(database)
    this.#insistence = insistenceOf(database)
    this.#once = new PushesOnce(database, this.#insistence)
    this.#joining = new Joining(database, this.#queues, this.#home)
    this.#untoldTenants = new UntoldTenants(logger)
  }

  /** Resolves to how many jobs were stored: a middleware may have dropped some. */
  enqueue<P, Handed>(
    queue: Queue<P, Handed>,
    jobs: NewJob<P> | Iterable<NewJob<P>>,
    options: EnqueueOptions,
  ): Promise<number> {
    if (this.#closed) return Promise.reject(new LockstepError('LOCKSTEP_CLOSED', CLOSED))
    const call = this.#enqueue(queue, jobs, options).then(({ length }) => length)
    // The caller must wait for a push in his own transaction, which uses his connection.
    return options?.tx ? call : this.#underWay.watch(call)
  }

  /**
   * As `enqueue`, for many clients who share the pool: waits at most five seconds for a transaction that has pushed one of the ids.
   * @throws DatabaseError `LOCKSTEP_LOCKED`
   */
  enqueueInTime(queue: Queue, jobs: readonly NewJob[]): Promise<number> {
    if (this.#closed) return Promise.reject(new LockstepError('LOCKSTEP_CLOSED', CLOSED))
    const until = performance.now() + PATIENCE
    return this.#underWay.watch(this.#enqueue(queue, jobs, {}, until).then(({ length }) => length))
  }

  /** As `enqueueInTime`, once for a key, however often it is called. */
  enqueueOnce(queue: Queue, jobs: readonly NewJob[], key: IdempotencyKey): Promise<PushedOnce> {
    if (this.#closed) return Promise.reject(new LockstepError('LOCKSTEP_CLOSED', CLOSED))
    const push = async (tx: Queryable) =>
      (await this.#enqueue(queue, jobs, { tx: tx as EnqueueTransaction })).length
    const waiting = waitingFor(queue.name, jobs)
    return this.#underWay.watch(orAnew(() => this.#once.push(key, jobs.length, push, waiting)))
  }

  /**
   * As `enqueue` for one job. Resolves to its id, and to the round that takes its payload, for `result`. `inTime`: see
   * `enqueueInTime`.
   */
  enqueueForResult<P, Handed>(
    queue: Queue<P, Handed>,
    job: NewJob<P>,
    options: EnqueueOptions,
    inTime = false,
  ): Promise<PushedForResult> {
    if (this.#closed) return Promise.reject(new LockstepError('LOCKSTEP_CLOSED', CLOSED))
    if (options && 'tx' in options) return this.#pushForResult(queue, job, options)
    const pushIn = (tx: Queryable) =>
      this.#pushForResult(queue, job, { ...options, tx: tx as EnqueueTransaction })
    const push = (longestWait?: number) =>
      this.#database.transaction(pushIn, { begin: waitingAtMost(longestWait) })
    if (!inTime) return this.#underWay.watch(orAnew(() => push()))
    const waiting = waitingFor(queue.name, [job])
    return this.#underWay.watch(orAnew(() => this.#insistence.insist(push, waiting)))
  }

  /** A transaction of the caller's, once it is known to be one of this database. */
  enter(tx: EnqueueTransaction | undefined, purpose: Purpose): Promise<Entered> {
    return enter(tx, purpose, this.#database, this.#home)
  }

  /** Accepts no more calls. Resolves when those under way have ended, except those with `tx`. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#underWay.ended()
  }

  async #pushForResult<P, Handed>(
    queue: Queue<P, Handed>,
    job: NewJob<P>,
    options: EnqueueOptions,
  ): Promise<PushedForResult> {
    const [pushed] = await this.#enqueue(queue, [job], options)
    if (!pushed) throw new LockstepError('LOCKSTEP_DROPPED', DROPPED)
    const { id, payload } = pushed
    return { id, round: await roundOf(this.#database, queue.name, id, payload, joinTransaction(options.tx)) }
  }

  async #enqueue<P, Handed>(
    queue: Queue<P, Handed>,
    jobs: NewJob<P> | Iterable<NewJob<P>>,
    options: EnqueueOptions,
    until?: number,
  ): Promise<readonly PushedJob[]> {
    if (!isQueue(queue)) throw badQueue(queue)
    const into = { ...target(queue, options), until }
    const asked = toArray(jobs)
    asked.forEach(requireObject)
    const given = withTenants(queue as Queue, asked)
    const call = { queue: queue.name, jobs: given.length, tx: into.tx !== undefined }
    const store = () => this.#storeAll(queue as Queue, given, into)
    return this.#instruments.watch('enqueue', call, store, ({ length }) => ({ stored: length }))
  }

  /** Resolves to the jobs as they were stored. */
  async #storeAll(queue: Queue, given: readonly NewJob[], into: Target): Promise<readonly PushedJob[]> {
    let stored: readonly PushedJob[] = []
    let begun = false
    // Checks the jobs only after the middleware, which may give them their ids.
    const store = async (current: readonly NewJob[]) => {
      begun = true
      // What a middleware has made or changed.
      const jobs = current === given ? given : withTenants(queue, current)
      const call = stamped(checkCall(jobs, given), this.#instruments.headers())
      this.#untoldTenants.see(queue, call.jobs)
      const checking = checkBySchema(queue, call)
      if (checking) {
        into.tx?.bind()
        await checking
      }
      await this.#store(into, call)
      stored = stored.length === 0 ? call.jobs : [...stored, ...call.jobs]
    }
    const storing = runMiddleware(this.#middleware, queue, given, store)
    // A middleware is waiting for something before it calls next().
    if (!begun) into.tx?.bind()
    await storing
    return stored
  }

  async #store({ queue, tx, wake, until }: Target, call: CheckedCall): Promise<void> {
    if (call.jobs.length === 0) return
    const chunks = [...inChunks(inLockOrder(call.jobs))]
    const toError = (error: unknown, chunk: readonly PushedJob[]) => {
      if (hasCode(error, 'LOCKSTEP_UNKNOWN_QUEUE')) this.#queues.forget(queue.name)
      return toCallersError(error, queue.name, chunk, call)
    }
    if (tx) return this.#joining.push(tx, { queue, chunks, wake }, toError)
    return orAnew(async () => {
      await this.#queues.ensure(queue)
      const store = (longestWait?: number) => this.#storeOwn(queue.name, chunks, longestWait, toError)
      if (until === undefined) return this.#push(queue.name, chunks, store)
      const waiting = waitingFor(queue.name, call.jobs, until)
      const insist = () => this.#insistence.insist(store, waiting)
      // It would only hold up those that go with it.
      if (waiting.row !== undefined && this.#insistence.isHeld(waiting.row)) return insist()
      return this.#push(queue.name, chunks, insist)
    })
  }

  /** Together with others, if it is small. `alone` pushes it by itself. */
  #push(queue: string, chunks: readonly (readonly PushedJob[])[], alone: () => Promise<void>): Promise<void> {
    return chunks.length > 1 ? alone() : this.#pushBatcher.push({ queue, jobs: chunks[0]!, alone })
  }

  /** In a transaction of its own. `longestWait`: ms for a row. */
  async #storeOwn(
    queue: string,
    chunks: readonly (readonly PushedJob[])[],
    longestWait: number | undefined,
    toError: (error: unknown, chunk: readonly PushedJob[]) => unknown,
  ): Promise<void> {
    const pushAll = async (on?: Queryable) => {
      for (const chunk of chunks) {
        const pushing =
          on || longestWait === undefined
            ? push(this.#database, queue, chunk, on)
            : pushWithin(this.#database, longestWait, queue, chunk)
        await pushing.catch((error) => {
          throw toError(error, chunk)
        })
      }
    }
    const together = () => this.#database.transaction(pushAll, { begin: waitingAtMost(longestWait) })
    return chunks.length > 1 ? together() : alone(pushAll, together)
  }
}

/** A queue that was deleted since the last push is made again: nothing has been stored. */
function orAnew<T>(push: () => Promise<T>): Promise<T> {
  return push().catch((error) => {
    if (!hasCode(error, 'LOCKSTEP_UNKNOWN_QUEUE')) throw error
    return push()
  })
}

/** A single statement is its own transaction. It can meet a conflict only if the database's default level is stricter. */
async function alone(push: () => Promise<void>, together: () => Promise<void>): Promise<void> {
  try {
    await push()
  } catch (error) {
    if (!hasCode(error, 'LOCKSTEP_CONFLICT')) throw error
    await together()
  }
}

function toArray(jobs: NewJob | Iterable<NewJob>): readonly NewJob[] {
  return typeof jobs === 'object' && jobs !== null && Symbol.iterator in jobs ? [...jobs] : [jobs]
}

interface Target {
  readonly queue: QueueToEnsure
  readonly tx: Joined | undefined
  readonly wake: boolean
  /** When it gives up if a transaction that has pushed one of the ids stays open, by the monotonic clock. Undefined: never. */
  readonly until: number | undefined
}

function target(queue: Target['queue'], options: EnqueueOptions): Omit<Target, 'until'> {
  rejectUnknownOptions(options, ['tx', 'wake'], 'enqueue')
  const { wake = true } = options
  // A key without a value is probably a variable that was not set, so it is refused.
  const tx = 'tx' in options ? joinTransaction(options.tx) : undefined
  trueOrFalse(wake, 'enqueue: wake')
  if (!wake && !tx) throw new OptionError('enqueue: `wake: false` needs `tx`, the transaction to be prepared')
  return { queue, tx, wake }
}

function badQueue(queue: unknown): LockstepError {
  return new LockstepError(
    'LOCKSTEP_BAD_QUEUE',
    `the queue must be the result of defineQueue(), not ${show(queue)}`,
  )
}
