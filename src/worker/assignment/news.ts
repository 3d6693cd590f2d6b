import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { changed, FREED, notify } from '../../store/wake.ts'

/**
 * What processes report to each other, so that not each has to poll for it: that the state has changed (see Comparison),
 * and that shards are free.
 */
export class News {
  readonly #database: Database
  readonly #logger: Logger
  #seen: string | undefined
  /** The last state that any process reported, including this one. */
  #heard: string | undefined
  #owed = false

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  /** Whether this process saw a change that it could not report. */
  get owed(): boolean {
    return this.#owed
  }

  /** A process reported a state. Returns whether this process has not seen it yet. */
  hear(state: string): boolean {
    this.#heard = state
    return state !== this.#seen
  }

  /**
   * A comparison has shown this state. Returns whether it differs from the one before. A process that sees a change reports
   * it, unless another has reported the same state. Processes that get the report see that state too, or a later one, which
   * they report in turn. So in the end all have seen the last state, and it was reported about once.
   */
  async see(state: string): Promise<boolean> {
    const isNew = this.#seen !== undefined && this.#seen !== state
    this.#seen = state
    this.#owed = (this.#owed || isNew) && state !== this.#heard
    if (this.#owed && (await this.#tell(changed(state)))) {
      // Set now, not when the report comes back: if the former state returns meanwhile, that is another change.
      this.#heard = state
      this.#owed = false
    }
    return isNew
  }

  /** Shards were released. If this can't be reported, a process that lacks shards finds out at its next comparison. */
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
