import type { Database } from '../postgres/database.ts'
import { findHome, type Home } from '../store/home.ts'
import { isExhausted } from './known-queues.ts'

/** Where the schema of this process's own pool is, asked once: no transaction of another database's is to be pushed in. */
export class KnownHome {
  readonly #database: Database
  #home: Home | undefined

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Undefined where it was never asked, and the pool has no connection to spare: all of them may be in transactions
   * like the caller's, waiting here.
   */
  async find(): Promise<Home | undefined> {
    return this.#home ?? this.again()
  }

  /** As it is now: a database may have been restored or renamed. What was known, where the pool has no connection to spare. */
  async again(): Promise<Home | undefined> {
    if (!isExhausted(this.#database.pool)) this.#home = await findHome(this.#database)
    return this.#home
  }
}
