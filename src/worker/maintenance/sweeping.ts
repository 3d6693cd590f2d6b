import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'
import { removeSilent } from '../../store/process.ts'
import { Silence } from '../../store/silence.ts'
import type { Maintenance } from './maintenance.ts'

export interface SweepingOptions {
  readonly logger: Logger
  /** ms between comparisons. */
  readonly rebalanceInterval: number
  /** Some processes are gone since the last comparison, whoever removed them, and the jobs they had in progress are free. */
  onGone(): void
  /** This process has removed some: the next comparison will differ. */
  onRemoved(): void
}

/**
 * Removes processes that were silent for their leases, by this process's own monotonic clock. A lease ends this way and no
 * other. This process's own former rows are no exception.
 */
export class Sweeping implements Maintenance {
  readonly name = 'sweeping'
  readonly every: number
  readonly #options: SweepingOptions
  readonly #silence = new Silence()
  #over: { processId: number; renewal: string }[] = []

  constructor(options: SweepingOptions) {
    this.#options = options
    this.every = options.rebalanceInterval / 2
  }

  see({ processes }: Comparison, at: number): void {
    if (this.#silence.note(processes, at) > 0) this.#options.onGone()
    this.#over = this.#silence.over(at)
  }

  isDue(): boolean {
    return this.#over.length > 0
  }

  /** ms until the next lease may be over. */
  nextSight(): number {
    return this.#silence.next(performance.now())
  }

  /** A process that has renewed its lease since stays: the same statement checks that. */
  async run(database: Database): Promise<object | undefined> {
    const over = this.#over
    const processIds = await removeSilent(database, over)
    // If that fails, they are still due. If a comparison came meanwhile, its list is newer.
    if (this.#over === over) this.#over = []
    if (processIds.length === 0) return undefined
    const { logger, onRemoved } = this.#options
    logger.warn(
      { event: 'silent', processIds },
      'processes were silent for their leases: what they had is free',
    )
    onRemoved()
    return { processIds }
  }
}
