import type { Database } from '../postgres/database.ts'
import { findBeside, findHome, type Home } from '../store/home.ts'
import type { Through } from '../store/through.ts'
import { overSpareConnection } from './spare-connection.ts'

/** Where the schema of this process's own pool is. Asked once, to refuse transactions of other databases. */
export class KnownHome {
  readonly #database: Database
  #home: Home | undefined
  #asking: Promise<Home> | undefined

  constructor(database: Database) {
    this.#database = database
  }

  /** Undefined until the first answer. */
  get known(): Home | undefined {
    return this.#home
  }

  /** Undefined if there has been no answer and no connection is free. */
  async find(): Promise<Home | undefined> {
    return this.#home ?? this.again()
  }

  /** Asks again: a database may have been restored or renamed. Returns the last answer if no connection is free. */
  async again(): Promise<Home | undefined> {
    const now = await overSpareConnection(this.#database.pool, () => this.#ask())
    return now ?? this.#home
  }

  /** The name of the database of a transaction that has failed for want of our schema, if that can be told. */
  async findBeside(on: Through): Promise<string | undefined> {
    return overSpareConnection(this.#database.pool, () => findBeside(this.#database, on))
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
