import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { lookAtProcesses, type ProcessSight, removeSilent } from '../store/process.ts'
import { Silence } from '../store/silence.ts'

/**
 * Looks at all processes, and removes those that were silent for their leases, by its own monotonic clock: so ends a
 * lease, and nothing else ends it. This process's own former rows are no exception.
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

  /** Those that are left. */
  async look(): Promise<ProcessSight[]> {
    const sights = await lookAtProcesses(this.#database)
    const now = performance.now()
    const gone = this.#silence.note(sights, now)
    const over = this.#silence.over(now)
    const removed = over.length > 0 ? await removeSilent(this.#database, over) : []
    if (removed.length > 0)
      this.#logger.warn(
        { processIds: removed },
        'processes were silent for their leases: what they had is free',
      )
    if (gone + removed.length > 0) this.#onGone()
    return sights.filter(({ processId }) => !removed.includes(processId))
  }
}
