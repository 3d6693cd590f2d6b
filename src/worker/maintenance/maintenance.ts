import type { Database } from '../../postgres/database.ts'
import type { Queue } from '../../queue.ts'
import type { Comparison } from '../../store/comparison.ts'

/**
 * Periodic work that processes do for each other. Every worker does all of it, so that the others take over from those that
 * die. A lock keeps two processes from doing the same work at once. One may do it after the other, so a run must leave
 * alone what is already done.
 */
export interface Maintenance {
  /** Its name in the log, and the name of its lock. */
  readonly name: string
  /** ms from the end of one run to the next. */
  readonly every: number
  /**
   * Returns what was done, as fields for the log; undefined if there was nothing to do. Does only a part that takes a
   * second or so: the lock does not last for ever, and the next run comes.
   */
  run(database: Database): Promise<object | undefined>
  /** Gets the result of a comparison whose answer arrived at `at` (ms of the monotonic clock). */
  see?(seen: Comparison, at: number): void
  /**
   * Whether there is something to do. If it knows this without asking the server, it costs nothing until then. Default
   * true.
   */
  isDue?(): boolean
  /** ms until it needs another comparison; Infinity if it needs none. */
  nextSight?(): number
}

/** A queue whose first shard this process holds. So of several processes, only one does something for a queue. */
export interface LedQueue {
  readonly queueId: number
  readonly queue: Queue
  /** Whether lanes of tenants are known. */
  readonly hasTenants: boolean
}

export interface Led {
  /** Those that this process has now. */
  ledQueues(): readonly LedQueue[]
}
