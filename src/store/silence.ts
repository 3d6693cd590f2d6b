import type { ProcessSight } from './process.ts'

interface Seen {
  readonly renewal: string
  /** ms. */
  readonly lease: number
  /** When the answer of the first look with this renewal arrived. */
  readonly since: number
}

/** Finds processes whose renewals have stopped. Times are in ms of this process's monotonic clock. */
export class Silence {
  readonly #seen = new Map<number, Seen>()

  /** Notes the result of a look, whose answer arrived at `at`. Returns how many processes seen before are gone. */
  note(sights: readonly ProcessSight[], at: number): number {
    const before = this.#seen.size
    let met = 0
    const now = sights.map(({ processId, renewal, lease }): [number, Seen] => {
      const last = this.#seen.get(processId)
      if (last) met += 1
      // The time counts from the answer: the renewal may have happened just before it, however early the look began.
      return [processId, last?.renewal === renewal ? last : { renewal, lease, since: at }]
    })
    this.#seen.clear()
    for (const [processId, seen] of now) this.#seen.set(processId, seen)
    return before - met
  }

  /** The processes that have been silent for a lease at `at`. */
  over(at: number): { processId: number; renewal: string }[] {
    return [...this.#seen]
      .filter(([, { since, lease }]) => at - since >= lease)
      .map(([processId, { renewal }]) => ({ processId, renewal }))
  }

  /** ms until the next one may be silent for a lease. Ignores those that are already, which have had their look. */
  next(at: number): number {
    const left = [...this.#seen.values()].map(({ since, lease }) => since + lease - at)
    return Math.min(...left.filter((ms) => ms > 0))
  }
}
