import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'
import { endOutlived, type ProcessSession } from '../../store/process.ts'
import type { Maintenance } from './maintenance.ts'

/** Rebalance intervals that a session may outlive its process before it is ended. */
const PATIENCE = 2

interface Seen extends ProcessSession {
  /** ms of this process's monotonic clock. */
  readonly since: number
  /** It has been seen for long enough. */
  readonly over: boolean
}

/**
 * A process that was stopped, or whose network was cut, may keep its session, and with it its shards, for as long as it
 * likes: no one would serve them. A process that has seen the session of an ended lease for two rebalance intervals ends
 * it. One that is seen only once may belong to a process that is just registering again, or stopping. A process that comes
 * back finds its locks lost.
 */
export class Zombies implements Maintenance {
  readonly name = 'zombies'
  readonly every: number
  readonly #logger: Logger
  /** ms. */
  readonly #rebalanceInterval: number
  #seen: readonly Seen[] = []
  #untried = false

  /** `rebalanceInterval`: ms. */
  constructor(logger: Logger, rebalanceInterval: number) {
    this.#logger = logger
    this.#rebalanceInterval = rebalanceInterval
    this.every = rebalanceInterval / 2
  }

  see({ outlived }: Comparison, at: number): void {
    this.#seen = outlived.map((session): Seen => {
      const last = this.#seen.find(
        ({ pid, processId }) => pid === session.pid && processId === session.processId,
      )
      const since = last?.since ?? at
      return { ...session, since, over: at - since >= PATIENCE * this.#rebalanceInterval }
    })
    this.#untried = this.#seen.some(({ over }) => over)
  }

  isDue(): boolean {
    return this.#untried
  }

  /** A session that can't be ended is tried again whenever a comparison shows it, but no comparison is made for that. */
  nextSight(): number {
    return this.#seen.some(({ over }) => !over) ? this.#rebalanceInterval : Number.POSITIVE_INFINITY
  }

  async run(database: Database): Promise<object> {
    this.#untried = false
    const sessions = this.#seen.filter(({ over }) => over)
    for (const session of sessions) await this.#end(database, session)
    return { pids: sessions.map(({ pid }) => pid) }
  }

  async #end(database: Database, session: ProcessSession): Promise<void> {
    const { pid, processId } = session
    this.#logger.warn(
      { processId, pid },
      'a process outlived its lease: ending the session that has its shards',
    )
    await endOutlived(database, session).catch((error: Error) =>
      this.#logger.warn({ error: error.message, pid }, 'ending the session failed'),
    )
  }
}
