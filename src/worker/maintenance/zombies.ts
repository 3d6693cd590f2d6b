import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { endSession, type ProcessSession } from '../../store/process.ts'

/** Rebalance intervals that a session outlives its process before it is ended. */
const PATIENCE = 2

interface Seen extends ProcessSession {
  /** ms of this process's monotonic clock. */
  readonly since: number
  readonly tried: boolean
}

/**
 * A process that was stopped, or whose network was cut, may keep its session and with it its shards for as long
 * as it likes: nobody would serve them. Whoever has seen the session of an ended lease for two rebalance intervals ends it; what is
 * seen once may be a process that is just registering anew, or stops. The one that comes back finds its locks lost.
 */
export class Zombies {
  readonly #database: Database
  readonly #logger: Logger
  /** ms. */
  readonly #patience: number
  #seen: readonly Seen[] = []

  /** `rebalanceInterval`: ms. */
  constructor(database: Database, logger: Logger, rebalanceInterval: number) {
    this.#database = database
    this.#logger = logger
    this.#patience = PATIENCE * rebalanceInterval
  }

  /** One is seen that may have to be ended at a comparison to come. What can't be ended is tried again with each comparison. */
  get pending(): boolean {
    return this.#seen.some(({ tried }) => !tried)
  }

  /** Ends those that were seen for long enough, of those that a comparison has shown whose answer was here at `at`. */
  async end(sessions: readonly ProcessSession[], at: number): Promise<void> {
    const seen = sessions.map((session): Seen => {
      const last = this.#seen.find(
        ({ pid, processId }) => pid === session.pid && processId === session.processId,
      )
      const since = last?.since ?? at
      return { ...session, since, tried: at - since >= this.#patience }
    })
    this.#seen = seen
    for (const { pid, processId, tried } of seen) if (tried) await this.#end(pid, processId)
  }

  async #end(pid: number, processId: number): Promise<void> {
    this.#logger.warn(
      { processId, pid },
      'a process outlived its lease: ending the session that has its shards',
    )
    await endSession(this.#database, pid).catch((error: Error) =>
      this.#logger.warn({ error: error.message, pid }, 'ending the session failed'),
    )
  }
}
