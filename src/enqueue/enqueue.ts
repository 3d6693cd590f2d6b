import type { NewJob } from '../job.ts'
import { rejectUnknownOptions } from '../options.ts'
import { Database, type Queryable } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import { type PushedJob, push } from '../store/push.ts'
import { ensureQueue } from '../store/queue.ts'
import { inChunks, inLockOrder } from './chunks.ts'
import { type ClientMiddleware, runMiddleware } from './middleware.ts'
import { allOrNothing, type EnqueueTransaction, isPool, toQueryable } from './transaction.ts'
import { toPushedJob } from './validation.ts'

export interface EnqueueOptions {
  /** The transaction that the jobs are part of: they exist if and only if it commits. */
  readonly tx?: EnqueueTransaction
}

/** Pushes jobs: all of a call or none. */
export class Enqueuer {
  readonly #database: Database
  readonly #middleware: readonly ClientMiddleware[]
  readonly #ensured = new Map<string, Promise<unknown>>()

  constructor(database: Database, middleware: readonly ClientMiddleware[]) {
    this.#database = database
    this.#middleware = middleware
  }

  /** Returns how many jobs were stored: a middleware may have dropped some. */
  async enqueue<P>(
    queue: Queue<P>,
    jobs: NewJob<P> | Iterable<NewJob<P>>,
    options: EnqueueOptions,
  ): Promise<number> {
    rejectUnknownOptions(options, ['tx'], 'enqueue')
    const given = Symbol.iterator in jobs ? [...jobs] : [jobs]
    // Before any middleware, so that an error names the caller's own index.
    const checked = given.map(toPushedJob)
    const on = options.tx === undefined ? undefined : target(options.tx)
    let stored = 0
    const store = async (current: readonly NewJob[]) => {
      const pushed = current === given ? checked : current.map(toPushedJob)
      await this.#store(queue, inLockOrder(pushed), on)
      stored += pushed.length
    }
    await runMiddleware(this.#middleware, queue as Queue, given, store)
    return stored
  }

  async #store(
    queue: { name: string; shards: number },
    jobs: readonly PushedJob[],
    on: Target | undefined,
  ): Promise<void> {
    if (jobs.length === 0) return
    await this.#ensure(queue)
    const chunks = [...inChunks(jobs)]
    const pushAll = async (through?: Queryable) => {
      for (const chunk of chunks) await push(this.#database, queue.name, chunk, through)
    }
    if (on?.client)
      return chunks.length === 1 ? pushAll(on.client) : allOrNothing(on.client, () => pushAll(on.client))
    const pool = on?.pool ?? this.#database.pool
    if (chunks.length === 1) return pushAll(pool)
    await new Database(pool, this.#database.schema).transaction((client) => pushAll(client))
  }

  /** The queue's row is committed on a connection of its own: it stays, whatever becomes of the caller's. */
  #ensure({ name, shards }: { name: string; shards: number }): Promise<unknown> {
    let ensured = this.#ensured.get(name)
    if (!ensured) {
      ensured = ensureQueue(this.#database, name, shards)
      this.#ensured.set(name, ensured)
      ensured.catch(() => this.#ensured.delete(name))
    }
    return ensured
  }
}

interface Target {
  readonly client?: Queryable
  readonly pool?: import('pg').Pool
}

function target(tx: EnqueueTransaction): Target {
  return isPool(tx) ? { pool: tx } : { client: toQueryable(tx) }
}
