import type { CheckedFairness } from '../fairness.ts'
import type { Database } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { ensureQueue } from '../store/queue.ts'
import { addFairness } from '../store/tenants.ts'
import { overSpareConnection } from './spare-connection.ts'

export interface QueueToEnsure {
  readonly name: string
  readonly shards: number
  readonly fairness?: CheckedFairness | undefined
}

/** Most names that are kept: a queue may be made for a single job. */
const MOST = 10_000

/** Queues known to be in the database, so that a push need not check. */
export class KnownQueues {
  readonly #database: Database
  readonly #known = new Set<string>()
  readonly #creating = new Map<string, Promise<true>>()

  constructor(database: Database) {
    this.#database = database
  }

  has(name: string): boolean {
    return this.#known.has(name)
  }

  /** Creates the queue if it is missing. */
  async ensure(queue: QueueToEnsure): Promise<void> {
    if (!this.has(queue.name)) await this.#creation(queue)
  }

  /**
   * Like `ensure`, but on another connection while the caller's transaction is open, so that the queue stays even if that
   * rolls back. False if no connection is free: then the queue must be created in the transaction.
   */
  async ensureBeside(queue: QueueToEnsure): Promise<boolean> {
    if (this.has(queue.name)) return true
    return (await overSpareConnection(this.#database.pool, () => this.#creation(queue))) ?? false
  }

  /** Called if the queue turns out to be missing. */
  forget(name: string): void {
    this.#known.delete(name)
  }

  #creation(queue: QueueToEnsure): Promise<true> {
    let creating = this.#creating.get(queue.name)
    if (!creating) {
      creating = this.#create(queue).finally(() => this.#creating.delete(queue.name))
      this.#creating.set(queue.name, creating)
    }
    return creating
  }

  async #create({ name, shards, fairness }: QueueToEnsure): Promise<true> {
    const queueId = await this.#ensure(name, shards)
    // What a worker has set, stays: it knows the queue better than a producer of a release before.
    if (fairness) await addFairness(this.#database, queueId, fairness)
    this.#known.add(name)
    if (this.#known.size > MOST) this.#known.delete(this.#known.values().next().value!)
    return true
  }

  async #ensure(name: string, shards: number): Promise<number> {
    try {
      return await ensureQueue(this.#database, name, shards)
    } catch (error) {
      if (!hasCode(error, 'LOCKSTEP_CONFLICT')) throw error
      // Another process created it, and the database's default isolation hid that.
      return ensureQueue(this.#database, name, shards)
    }
  }
}
