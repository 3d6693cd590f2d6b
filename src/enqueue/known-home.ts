import type { Database } from '../postgres/database.ts'
import { findHome, type Home } from '../store/home.ts'
import { overSpareConnection } from './spare-connection.ts'

/** Where the schema of this process's own pool is, asked once: no transaction of another database's is to be pushed in. */
export class KnownHome {
  readonly #database: Database
  #home: Home | undefined
  #asking: Promise<Home> | undefined

  constructor(database: Database) {
    this.#database = database
  }

  /** Undefined until it was first answered. */
  get known(): Home | undefined {
    return this.#home
  }

  /** Undefined where it was never answered, and there is no connection to spare. */
  async find(): Promise<Home | undefined> {
    return this.#home ?? this.again()
  }

  /** As it is now: a database may have been restored or renamed. What was known, where there is no connection to spare. */
  async again(): Promise<Home | undefined> {
    const now = await overSpareConnection(this.#database.pool, () => this.#ask())
    return now ?? this.#home
  }

  #ask(): Promise<Home> {
    this.#asking ??= findHome(this.#database)
      .then((home) => {
        this.#home = home
        return home
      })
      .finally(() => {
        this.#asking = undefined
      })
    return this.#asking
  }
}
