import type { Database } from '../postgres/database.ts'
import { type PushedJob, pushInTransaction } from '../store/push.ts'
import { stayQuiet } from '../store/wake.ts'
import { KnownHome } from './known-home.ts'
import { allOrNothing, type Joined } from './transaction.ts'
import { toWrongTransaction } from './wrong-transaction.ts'

/** What one call pushes as a part of a transaction, a statement each chunk. */
export interface JoiningPush {
  readonly queue: string
  readonly chunks: readonly (readonly PushedJob[])[]
  /** Whether idle workers are told when it commits. */
  readonly wake: boolean
}

type ToError = (error: unknown, chunk: readonly PushedJob[]) => unknown

/** Pushes as a part of callers' transactions. */
export class Joining {
  readonly #database: Database
  readonly #home: KnownHome

  constructor(database: Database) {
    this.#database = database
    this.#home = new KnownHome(database)
  }

  /**
   * Stores all or nothing.
   * @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` where `on` is in no transaction, or in one of another database
   */
  async push(on: Joined, { queue, chunks, wake }: JoiningPush, toError: ToError): Promise<void> {
    const home = await this.#home.find()
    const pushAll = async () => {
      if (!wake) await stayQuiet(on)
      for (const chunk of chunks) {
        await pushInTransaction(this.#database, queue, chunk, on, home).catch(async (error) => {
          throw toError(await toWrongTransaction(error, on, this.#home), chunk)
        })
      }
    }
    return chunks.length === 1 ? pushAll() : allOrNothing(on, pushAll)
  }
}
