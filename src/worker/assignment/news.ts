import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { changed, FREED, notify } from '../../store/wake.ts'

/**
 * What processes tell each other, so that not each has to look for it: that the state of all has changed (see Comparison), and
 * that shards are free.
 */
export class News {
  readonly #database: Database
  readonly #logger: Logger
  #seen: string | undefined
  /** The last state that anybody told of, this process too. */
  #heard: string | undefined
  #owed = false

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  /** A change was seen that could not be told. */
  get owed(): boolean {
    return this.#owed
  }

  /** Somebody told of a state: says whether this process has not seen it yet. */
  hear(state: string): boolean {
    this.#heard = state
    return state !== this.#seen
  }

  /**
   * A comparison has shown this state: says whether it is another than before. Who sees a change tells it, unless it is what
   * he was told. Those who are told see the same, or a later one that they tell in turn: so all have seen the last one in
   * the end, and it was told about once.
   */
  async see(state: string): Promise<boolean> {
    const isNew = this.#seen !== undefined && this.#seen !== state
    this.#seen = state
    this.#owed = (this.#owed || isNew) && state !== this.#heard
    if (this.#owed && (await this.#tell(changed(state)))) {
      // Now, and not when it is heard: a state that comes back meanwhile is another change.
      this.#heard = state
      this.#owed = false
    }
    return isNew
  }

  /** Shards were let go of. Where that can't be told, whoever misses them finds out at his next comparison. */
  async freed(): Promise<void> {
    await this.#tell(FREED)
  }

  async #tell(message: string): Promise<boolean> {
    try {
      await notify(this.#database, message)
      return true
    } catch (error) {
      this.#logger.debug({ error: (error as Error).message, message }, 'telling other processes failed')
      return false
    }
  }
}
