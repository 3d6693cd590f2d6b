import type { Database } from '../../postgres/database.ts'
import { addCounts, type Count } from '../../store/counter.ts'
import { Loop, type Service } from '../lifecycle/service.ts'

const FLUSH_EVERY = 5_000

type Sum = { -readonly [Key in keyof Count]: Count[Key] }

/**
 * Counts ended rounds, and payloads that expired, in memory and adds them to the table now and then, so that no row becomes hot. A process that is
 * killed loses the counts of its last seconds.
 */
export class Tally implements Service {
  readonly #database: Database
  readonly #loop = new Loop(() => this.#pass())
  #counts = new Map<number, Sum>()

  constructor(database: Database) {
    this.#database = database
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#flush()
  }

  /** `expired`: payloads. */
  add(queueId: number, processed: number, failed: number, expired = 0): void {
    const count = this.#counts.get(queueId)
    if (count) {
      count.processed += processed
      count.failed += failed
      count.expired += expired
    } else this.#counts.set(queueId, { queueId, processed, failed, expired })
  }

  async #pass(): Promise<void> {
    await this.#loop.alarm.wait(FLUSH_EVERY)
    if (!this.#loop.stopping) await this.#flush()
  }

  async #flush(): Promise<void> {
    if (this.#counts.size === 0) return
    const counts = this.#counts
    this.#counts = new Map()
    try {
      await addCounts(this.#database, [...counts.values()])
    } catch {
      for (const { queueId, processed, failed, expired } of counts.values())
        this.add(queueId, processed, failed, expired)
    }
  }
}
