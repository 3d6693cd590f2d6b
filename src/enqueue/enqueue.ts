import type pg from 'pg'
import { LockstepError } from '../errors.ts'
import type { NewJob } from '../job.ts'
import { rejectUnknownOptions, show } from '../options.ts'
import { Database, type Queryable } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { isQueue, type Queue } from '../queue.ts'
import { push } from '../store/push.ts'
import { type CheckedCall, checkCall } from './call.ts'
import { inChunks, inLockOrder } from './chunks.ts'
import { Gathering } from './gathering.ts'
import { KnownQueues } from './known-queues.ts'
import { type ClientMiddleware, runMiddleware } from './middleware.ts'
import { toCallersError } from './refusal.ts'
import { allOrNothing, type EnqueueTransaction, isPool, toQueryable } from './transaction.ts'
import { requireObject } from './validation.ts'

export interface EnqueueOptions {
  /** The transaction that the jobs are part of: they exist if and only if it commits. */
  readonly tx?: EnqueueTransaction
}

/** Pushes jobs: all of a call or none. */
export class Enqueuer {
  readonly #database: Database
  readonly #middleware: readonly ClientMiddleware[]
  readonly #queues: KnownQueues
  readonly #gathering: Gathering

  constructor(database: Database, middleware: readonly ClientMiddleware[]) {
    this.#database = database
    this.#middleware = middleware
    this.#queues = new KnownQueues(database)
    this.#gathering = new Gathering(database)
  }

  /** Returns how many jobs were stored: a middleware may have dropped some. */
  async enqueue<P>(
    queue: Queue<P>,
    jobs: NewJob<P> | Iterable<NewJob<P>>,
    options: EnqueueOptions,
  ): Promise<number> {
    if (!isQueue(queue)) throw badQueue(queue)
    rejectUnknownOptions(options, ['tx'], 'enqueue')
    const given = toArray(jobs)
    given.forEach(requireObject)
    const on = options.tx === undefined ? undefined : target(options.tx)
    let stored = 0
    // What a middleware hands on counts: it may give jobs their id.
    const store = async (current: readonly NewJob[]) => {
      const call = checkCall(current, given)
      await this.#store(queue, call, on)
      stored += call.jobs.length
    }
    await runMiddleware(this.#middleware, queue as Queue, given, store)
    return stored
  }

  async #store(
    queue: { name: string; shards: number },
    call: CheckedCall,
    on: Target | undefined,
  ): Promise<void> {
    if (call.jobs.length === 0) return
    await this.#queues.ensure(queue, on?.client)
    const chunks = [...inChunks(inLockOrder(call.jobs))]
    const pushAll = async (through?: Queryable) => {
      for (const chunk of chunks) {
        await push(this.#database, queue.name, chunk, through).catch((error) => {
          if (hasCode(error, 'LOCKSTEP_UNKNOWN_QUEUE')) this.#queues.forget(queue.name)
          throw toCallersError(error, queue.name, chunk, call)
        })
      }
    }
    const single = chunks.length === 1
    const { client, pool } = on ?? {}
    if (client) return single ? pushAll(client) : allOrNothing(client, () => pushAll(client))
    const alone = () => this.#storeOnPool(single, pushAll, pool)
    return single && !pool ? this.#gathering.push({ queue: queue.name, jobs: chunks[0]!, alone }) : alone()
  }

  /** A statement alone is a transaction; only where the database's default is stricter can it meet a conflict. */
  async #storeOnPool(
    single: boolean,
    pushAll: (through?: Queryable) => Promise<void>,
    pool?: pg.Pool,
  ): Promise<void> {
    try {
      if (single) return await pushAll(pool)
    } catch (error) {
      if (!hasCode(error, 'LOCKSTEP_CONFLICT')) throw error
    }
    const database = pool ? new Database(pool, this.#database.schema) : this.#database
    await database.transaction(pushAll)
  }
}

function toArray(jobs: NewJob | Iterable<NewJob>): readonly NewJob[] {
  return typeof jobs === 'object' && jobs !== null && Symbol.iterator in jobs ? [...jobs] : [jobs]
}

interface Target {
  readonly client?: Queryable
  readonly pool?: pg.Pool
}

function target(tx: EnqueueTransaction): Target {
  return isPool(tx) ? { pool: tx } : { client: toQueryable(tx) }
}

function badQueue(queue: unknown): LockstepError {
  return new LockstepError(
    'LOCKSTEP_BAD_QUEUE',
    `enqueue takes what defineQueue() returns, not ${show(queue)}`,
  )
}
