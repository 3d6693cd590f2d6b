import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { ensureQueue, listQueues, type QueueRow } from '../../store/queue.ts'
import { ServedQueue } from '../schedule/served-queue.ts'

/**
 * The queues of a worker, each with the current number of its row. A row may be deleted, by hand or while no one serves the
 * queue, and created again with another number. A worker that kept the old number would serve nothing.
 */
export class ServedQueues implements Iterable<ServedQueue> {
  readonly #database: Database
  readonly #logger: Logger
  #all: readonly ServedQueue[]

  constructor(database: Database, logger: Logger, all: readonly ServedQueue[]) {
    this.#database = database
    this.#logger = logger
    this.#all = all
  }

  [Symbol.iterator](): Iterator<ServedQueue> {
    return this.#all[Symbol.iterator]()
  }

  get names(): string[] {
    return this.#all.map(({ queue }) => queue.name)
  }

  get ids(): number[] {
    return this.#all.map(({ queueId }) => queueId)
  }

  /** Whether the queue is still served under the number it had then. */
  has(served: ServedQueue): boolean {
    return this.#all.includes(served)
  }

  /** Adopts the current numbers of the rows found. `make`: first creates missing rows again. */
  async compare(found: readonly QueueRow[], make: boolean): Promise<readonly QueueRow[]> {
    const rows = make ? await this.#make(found) : found
    this.#all = this.#all.map((served) => {
      const row = rows.find(({ name }) => name === served.queue.name)
      if (!row || row.queueId === served.queueId) return served
      this.#logger.warn(
        { queue: row.name, was: served.queueId, is: row.queueId },
        'the row of the queue was deleted and made again: serving the new one',
      )
      return new ServedQueue(served.queue, row.queueId, served.place)
    })
    return rows
  }

  /** Whether the row of any queue is missing from those found. */
  lacks(found: readonly QueueRow[]): boolean {
    return found.length < this.#all.length
  }

  async #make(found: readonly QueueRow[]): Promise<QueueRow[]> {
    const known = new Set(found.map(({ name }) => name))
    for (const { queue } of this.#all) {
      if (!known.has(queue.name)) await ensureQueue(this.#database, queue.name, queue.shards)
    }
    return listQueues(this.#database, this.names)
  }
}
