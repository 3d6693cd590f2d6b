import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { endSession, listOutlivedSessions } from '../store/process.ts'

/**
 * A process that was stopped, or whose network was cut, may keep its session and with it its shards for as long
 * as it likes: nobody would serve them. Whoever sees the session of an ended lease twice in a row ends it; once
 * may be a process that is just becoming somebody new. The one that comes back finds its locks lost.
 */
export class FrozenProcesses {
  readonly #database: Database
  readonly #logger: Logger
  #seen = new Set<number>()

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  async end(): Promise<void> {
    const sessions = await listOutlivedSessions(this.#database)
    const again = sessions.filter(({ pid }) => this.#seen.has(pid))
    this.#seen = new Set(sessions.map(({ pid }) => pid))
    for (const { pid, processId } of again) {
      this.#logger.warn(
        { processId, pid },
        'a process outlived its lease: ending the session that has its shards',
      )
      await endSession(this.#database, pid).catch((error: Error) =>
        this.#logger.warn({ error: error.message, pid }, 'ending the session failed'),
      )
    }
  }
}
