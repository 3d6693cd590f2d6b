import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'

/**
 * Periodic work that processes do for each other. Every worker has all of it, so that those who die leave it to the others. A
 * lock keeps two of them from doing the same at once; one after the other they may, so what is done already must be left alone.
 */
export interface Maintenance {
  /** Names it in the log, and its lock. */
  readonly name: string
  /** ms from the end of one run to the next. */
  readonly every: number
  /**
   * What was done, as fields for the log; undefined where there was nothing to do. It takes a part that is done within a second
   * or so: the lock does not last for ever, and the next run comes.
   */
  run(database: Database): Promise<object | undefined>
  /** What a comparison has shown whose answer was here at `at` (ms of the monotonic clock). */
  see?(seen: Comparison, at: number): void
  /** Whether there is something to do. Who knows it without asking the server costs nothing until then. Default true. */
  isDue?(): boolean
  /** ms until it needs another comparison; Infinity where it needs none. */
  nextSight?(): number
}
