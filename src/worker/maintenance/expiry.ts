import type { Instruments } from '../../instruments.ts'
import type { Database } from '../../postgres/database.ts'
import { type ExpiredRemoved, type ExpiryCursor, removeExpired } from '../../store/expiry.ts'
import type { Maintenance } from './maintenance.ts'

/** ms between runs, and after one that has left something. */
const [USUAL, SOON] = [10_000, 1_000]
/** ms that a run may go on while there is more. */
const LONGEST = 1_000
/** Most payloads that a call removes. */
const CHUNK = 1_000
/** ms between two runs from the beginning, at least, and how many times as long as the last one of them took. */
const [FULL_EVERY, FULL_SHARE] = [60_000, 50]

export interface ExpiryOptions {
  readonly instruments: Instruments
  /** So many payloads of a queue are gone. */
  onExpired(queueId: number, payloads: number): void
}

/**
 * Removes what has expired of jobs that wait. It goes on where the last run ended, since rows that are gone keep their entries in
 * the index until no snapshot is old enough to see them. Jobs that were in work then, or locked, and what was committed late lie
 * before that: so it begins anew now and then.
 */
export class Expiry implements Maintenance {
  readonly name = 'expiry'
  readonly #options: ExpiryOptions
  readonly #cursors = new Map<number, ExpiryCursor>()
  #hasLeft = false
  #nextFull = 0

  constructor(options: ExpiryOptions) {
    this.#options = options
  }

  get every(): number {
    return this.#hasLeft ? SOON : USUAL
  }

  async run(database: Database): Promise<object | undefined> {
    const startedAt = performance.now()
    const isFull = startedAt >= this.#nextFull
    if (isFull) this.#cursors.clear()
    const all = { payloads: 0, jobs: 0 }
    do {
      const removed = await removeExpired(database, [...this.#cursors.values()], CHUNK)
      for (const one of removed) this.#note(one, all)
      this.#hasLeft = removed.some(({ isMore }) => isMore)
    } while (this.#hasLeft && performance.now() - startedAt < LONGEST)
    if (isFull)
      this.#nextFull = startedAt + Math.max(FULL_EVERY, (performance.now() - startedAt) * FULL_SHARE)
    return all.payloads > 0 ? all : undefined
  }

  #note(
    { queueId, queue, payloads, jobs, after, afterId }: ExpiredRemoved,
    all: { payloads: number; jobs: number },
  ): void {
    this.#cursors.set(queueId, { queueId, after, afterId })
    all.payloads += payloads
    all.jobs += jobs
    if (payloads === 0) return
    this.#options.onExpired(queueId, payloads)
    this.#options.instruments.tell('expire', { queue, payloads })
  }
}
