import type { OpenTransaction } from '../adapters/adapter.ts'
import type { Database } from '../postgres/database.ts'
import { refuseTransaction, transactionOf } from '../store/same-transaction.ts'

/** A caller's transaction, checked as far as possible without the server, which checks the rest at the push. */
export class Joined implements OpenTransaction {
  /** Describes what the caller passed, for messages. */
  readonly given: string
  readonly ended: string | undefined
  readonly writable: string
  /** The database it is connected to, if known. */
  readonly place: string | undefined
  readonly client: object | undefined
  readonly casts: OpenTransaction['casts']
  readonly run: OpenTransaction['run']
  #transaction: Promise<string | undefined> | undefined

  constructor({ given, ended, writable, place, client, casts, run }: OpenTransaction) {
    this.given = given
    this.ended = ended
    this.writable = writable
    this.place = place
    this.client = client
    this.casts = casts
    this.run = run
  }

  /**
   * Asks which transaction this is before the call waits for anything else. A caller who does not await the call may roll
   * back meanwhile and release the client. A later push would then become part of the client's next transaction.
   */
  bind(): void {
    this.#transaction ??= transactionOf(this)
    // The push awaits it and handles its error.
    this.#transaction.catch(() => {})
  }

  get isBound(): boolean {
    return this.#transaction !== undefined
  }

  /** The transaction's number if `bind` asked for it and the caller's driver returns rows. */
  get transaction(): Promise<string | undefined> {
    return this.#transaction ?? Promise.resolve(undefined)
  }

  /**
   * Runs `work` so that all of it or nothing is stored: if a part fails, the transaction is aborted, as by any statement
   * that the server refuses. Rolling back to our own savepoint would let it go on, but would undo statements that others
   * have sent through it meanwhile and that seemed to succeed.
   */
  async allOrNothing(database: Database, work: () => Promise<void>): Promise<void> {
    const transaction = await this.transaction
    try {
      await work()
    } catch (error) {
      // The server has already aborted it, unless only the caller's side gave up, as at a time-out.
      await refuseTransaction(database, this, transaction).catch(() => {})
      throw error
    }
  }
}
