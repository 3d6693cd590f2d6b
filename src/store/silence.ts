import type { ProcessSight } from './process.ts'

interface Seen {
  readonly renewal: string
  /** ms. */
  readonly lease: number
  /** When the first look that showed this renewal was answered. */
  readonly since: number
}

/** Finds the processes whose renewals stand still. Moments are in ms of this process's monotonic clock. */
export class Silence {
  readonly #seen = new Map<number, Seen>()

  /** What a look has shown whose answer was here at `at`. Returns how many of those seen before are gone. */
  note(sights: readonly ProcessSight[], at: number): number {
    const before = this.#seen.size
    let met = 0
    const now = sights.map(({ processId, renewal, lease }): [number, Seen] => {
      const last = this.#seen.get(processId)
      if (last) met += 1
      // The time counts from the answer: the renewal may have come just before it, however early the question was.
      return [processId, last?.renewal === renewal ? last : { renewal, lease, since: at }]
    })
    this.#seen.clear()
    for (const [processId, seen] of now) this.#seen.set(processId, seen)
    return before - met
  }

  /** Those that have been silent for a lease by then. */
  over(at: number): { processId: number; renewal: string }[] {
    return [...this.#seen]
      .filter(([, { since, lease }]) => at - since >= lease)
      .map(([processId, { renewal }]) => ({ processId, renewal }))
  }

  /** ms until the next one may be; one whose time has come already has had its look. */
  next(at: number): number {
    const left = [...this.#seen.values()].map(({ since, lease }) => since + lease - at)
    return Math.min(...left.filter((ms) => ms > 0))
  }
}
