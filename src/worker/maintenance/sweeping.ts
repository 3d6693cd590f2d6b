import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { type ProcessSight, removeSilent } from '../../store/process.ts'
import { Silence } from '../../store/silence.ts'

/**
 * Removes processes that were silent for their leases, by its own monotonic clock: so ends a lease, and nothing else ends
 * it. This process's own former rows are no exception.
 */
export class SilentProcesses {
  readonly #database: Database
  readonly #logger: Logger
  readonly #onGone: () => void
  readonly #silence = new Silence()

  /** `onGone`: some are gone since the last look, whoever has removed them, and what they had in work is free. */
  constructor(database: Database, logger: Logger, onGone: () => void) {
    this.#database = database
    this.#logger = logger
    this.#onGone = onGone
  }

  /** ms until the next look that can matter. */
  get next(): number {
    return this.#silence.next(performance.now())
  }

  /** Those that are left, of what a look has shown whose answer was here at `at`, on this process's monotonic clock. */
  async judge(sights: readonly ProcessSight[], at: number): Promise<readonly ProcessSight[]> {
    const gone = this.#silence.note(sights, at)
    const over = this.#silence.over(at)
    const removed = over.length > 0 ? await removeSilent(this.#database, over) : []
    if (removed.length > 0)
      this.#logger.warn(
        { processIds: removed },
        'processes were silent for their leases: what they had is free',
      )
    if (gone + removed.length > 0) this.#onGone()
    return removed.length > 0 ? sights.filter(({ processId }) => !removed.includes(processId)) : sights
  }
}
