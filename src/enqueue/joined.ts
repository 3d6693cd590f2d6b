import type { Database, Queryable } from '../postgres/database.ts'
import { refuseTransaction, transactionOf } from '../store/same-transaction.ts'

/** A caller's transaction, as far as it can be told without asking the server: that sees the rest at the push. */
export class Joined implements Queryable {
  /** What the caller passed, for messages. */
  readonly given: string
  /** The database it is connected to, as far as it tells. */
  readonly place: string | undefined
  readonly query: Queryable['query']
  #transaction: Promise<string | undefined> | undefined

  constructor(given: string, query: Queryable['query'], place?: string) {
    this.given = given
    this.query = query
    this.place = place
  }

  /**
   * Asks which transaction this is, before the call waits for anything else. A caller who doesn't wait for the call may roll
   * back meanwhile and release the client: what is pushed later would be a part of whatever it is lent for next.
   */
  bind(): void {
    this.#transaction ??= transactionOf(this)
    // Whoever pushes awaits it.
    this.#transaction.catch(() => {})
  }

  get isBound(): boolean {
    return this.#transaction !== undefined
  }

  /** Its number where it was asked for, as far as the caller's driver returns rows as `pg` does. */
  get transaction(): Promise<string | undefined> {
    return this.#transaction ?? Promise.resolve(undefined)
  }

  /**
   * Runs `work` so that all of it or nothing is stored: where a part of it fails, the transaction is aborted, as by any
   * statement that the server refuses. To roll back to a savepoint of ours would let it go on, but without what others have
   * sent through it meanwhile and were told is done.
   */
  async allOrNothing(database: Database, work: () => Promise<void>): Promise<void> {
    const transaction = await this.transaction
    try {
      await work()
    } catch (error) {
      // The server has aborted it already, unless the caller's side gave up alone, as at a time-out.
      await refuseTransaction(database, this, transaction).catch(() => {})
      throw error
    }
  }
}
