import type { Database } from '../postgres/database.ts'
import { type PushedJob, pushInTransaction } from '../store/push.ts'
import { ensureQueueIn } from '../store/queue.ts'
import { pushInSameTransaction } from '../store/same-transaction.ts'
import { stayQuiet } from '../store/wake.ts'
import type { Joined } from './joined.ts'
import type { KnownHome } from './known-home.ts'
import type { KnownQueues, QueueToEnsure } from './known-queues.ts'
import { notInTransaction } from './transaction.ts'
import { toWrongTransaction } from './wrong-transaction.ts'

/** The jobs that one call pushes in a caller's transaction, with one statement per chunk. */
export interface JoiningPush {
  readonly queue: QueueToEnsure
  readonly chunks: readonly (readonly PushedJob[])[]
  /** Whether the commit wakes idle workers. */
  readonly wake: boolean
}

type ToError = (error: unknown, chunk: readonly PushedJob[]) => unknown

/** Pushes in callers' transactions. */
export class Joining {
  readonly #database: Database
  readonly #queues: KnownQueues
  readonly #home: KnownHome

  constructor(database: Database, queues: KnownQueues, home: KnownHome) {
    this.#database = database
    this.#queues = queues
    this.#home = home
  }

  /**
   * Stores all or nothing. Nothing may be awaited between the check of `on` and this call.
   * @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` if `on` is in no transaction, in a different one than when the call
   * began, or in one of another database
   */
  async push(on: Joined, push: JoiningPush, toError: ToError): Promise<void> {
    const { queue, chunks, wake } = push
    const toTold = (error: unknown) => toWrongTransaction(error, on, this.#home)
    const asTold = (chunk: readonly PushedJob[]) => async (error: unknown) => {
      throw toError(await toTold(error), chunk)
    }
    if (this.#isImmediate(on, push)) {
      const [chunk] = chunks as [readonly PushedJob[]]
      // Sent synchronously, so that the caller's later statements, such as ROLLBACK and BEGIN, come after it.
      return pushInTransaction(this.#database, queue.name, chunk, on, this.#home.known).catch(asTold(chunk))
    }
    on.bind()
    const [isThere, home] = await Promise.all([this.#queues.ensureBeside(queue), this.#home.find()])
    const transaction = await on.transaction.catch(async (error) => {
      throw await toTold(error)
    })
    const shards = isThere ? undefined : queue.shards
    const pushOne = async (chunk: readonly PushedJob[]) => {
      if (!transaction) return pushInTransaction(this.#database, queue.name, chunk, on, home)
      const into = { queue: queue.name, shards, transaction, home }
      if (!(await pushInSameTransaction(this.#database, into, chunk, on))) throw notInTransaction(on)
    }
    const pushAll = async () => {
      if (shards && !transaction) await ensureQueueIn(this.#database, queue.name, shards, on)
      if (!wake) await stayQuiet(on)
      for (const chunk of chunks) await pushOne(chunk).catch(asTold(chunk))
    }
    return chunks.length === 1 ? pushAll() : on.allOrNothing(this.#database, pushAll)
  }

  /** Whether the push needs no waiting, as is nearly always the case. */
  #isImmediate(on: Joined, { queue, chunks, wake }: JoiningPush): boolean {
    const known = this.#queues.has(queue.name) && this.#home.known !== undefined
    return known && chunks.length === 1 && wake && !on.isBound
  }
}
