import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { endLeases } from '../store/leases.ts'
import { Loop, type Service } from '../worker/lifecycle/service.ts'

/** Most leases to end in one call. */
const MOST = 50
/** ms between two looks at most, for leases of others, and at least. */
const [LONGEST_PAUSE, SHORTEST_PAUSE] = [1_000, 20]

/** Ends leases that are over, whoever holds them: of several consumers, whoever looks first does it. */
export class LeaseEnds implements Service {
  readonly #database: Database
  readonly #logger: Logger
  readonly #loop = new Loop(() => this.#pass())
  #isFailing = false

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** A lease has begun that ends in `lease` ms. */
  begun(lease: number): void {
    if (lease < LONGEST_PAUSE) this.#loop.alarm.ring()
  }

  async #pass(): Promise<void> {
    const pause = await this.#end()
    if (pause > 0) await this.#loop.alarm.wait(pause)
  }

  /** Returns the ms until the next look. */
  async #end(): Promise<number> {
    try {
      const { leases, next } = await endLeases(this.#database, MOST)
      this.#isFailing = false
      if (leases === MOST) return 0
      return Math.min(Math.max(next ?? LONGEST_PAUSE, SHORTEST_PAUSE), LONGEST_PAUSE)
    } catch (error) {
      if (!this.#isFailing)
        this.#logger.warn(
          { event: 'leases', error: (error as Error).message },
          'ending leases failed: trying again',
        )
      this.#isFailing = true
      return LONGEST_PAUSE
    }
  }
}
