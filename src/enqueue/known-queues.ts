import type pg from 'pg'
import type { Database, Queryable } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { ensureQueue, ensureQueueIn } from '../store/queue.ts'

interface QueueToEnsure {
  readonly name: string
  readonly shards: number
}

/** Queues that are in the database for sure, so that a push need not look. */
export class KnownQueues {
  readonly #database: Database
  readonly #known = new Set<string>()
  readonly #creating = new Map<string, Promise<unknown>>()

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Creates the queue where it is missing, on a connection of its own: it stays, whatever becomes of the caller's
   * transaction `on`. Only where the pool has no connection to spare it is created in that: all of them may be
   * in transactions like this one, waiting here.
   */
  async ensure(queue: QueueToEnsure, on?: Queryable): Promise<void> {
    if (this.#known.has(queue.name)) return
    if (on && isExhausted(this.#database.pool)) {
      await ensureQueueIn(this.#database, queue.name, queue.shards, on)
      return
    }
    let creating = this.#creating.get(queue.name)
    if (!creating) {
      creating = this.#create(queue).finally(() => this.#creating.delete(queue.name))
      this.#creating.set(queue.name, creating)
    }
    await creating
  }

  /** The queue was not there after all. */
  forget(name: string): void {
    this.#known.delete(name)
  }

  async #create({ name, shards }: QueueToEnsure): Promise<void> {
    try {
      await ensureQueue(this.#database, name, shards)
    } catch (error) {
      if (!hasCode(error, 'LOCKSTEP_CONFLICT')) throw error
      // Another process created it, and the database's default isolation hid that.
      await ensureQueue(this.#database, name, shards)
    }
    this.#known.add(name)
  }
}

/** Whether all connections are lent, and there may be no more. */
export function isExhausted(pool: pg.Pool): boolean {
  return pool.idleCount === 0 && pool.totalCount >= (pool.options.max ?? Number.POSITIVE_INFINITY)
}
