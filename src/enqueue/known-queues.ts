import type { Database } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { ensureQueue } from '../store/queue.ts'
import { overSpareConnection } from './spare-connection.ts'

export interface QueueToEnsure {
  readonly name: string
  readonly shards: number
}

/** Queues that are in the database for sure, so that a push need not look. */
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

  /** Creates the queue where it is missing. */
  async ensure(queue: QueueToEnsure): Promise<void> {
    if (!this.has(queue.name)) await this.#creation(queue)
  }

  /**
   * The same while a transaction of the caller's is open, on another connection: so it stays, whatever becomes of that. False
   * where there is none to spare: then it has to be created in the transaction.
   */
  async ensureBeside(queue: QueueToEnsure): Promise<boolean> {
    if (this.has(queue.name)) return true
    return (await overSpareConnection(this.#database.pool, () => this.#creation(queue))) ?? false
  }

  /** The queue was not there after all. */
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

  async #create({ name, shards }: QueueToEnsure): Promise<true> {
    try {
      await ensureQueue(this.#database, name, shards)
    } catch (error) {
      if (!hasCode(error, 'LOCKSTEP_CONFLICT')) throw error
      // Another process created it, and the database's default isolation hid that.
      await ensureQueue(this.#database, name, shards)
    }
    this.#known.add(name)
    return true
  }
}
