import type { Instant, Lane } from './lane.ts'
import type { Candidate } from './scheduler.ts'

/**
 * A lane as a scheduler sees it, and the lane itself. A scheduler may go through thousands of them before each batch, so what
 * it asks for is kept here, as of when the timetable last filed the lane, instead of collected from the lane, its shard and
 * its portions each time.
 */
export class DueLane implements Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  readonly tenantLane: number | undefined
  // Private, so that a scheduler of one's own can neither change nor freeze them.
  readonly #of: Lane
  #isClaimed = false
  #waiting = 0
  #isBegun = false
  #oldest = Number.POSITIVE_INFINITY
  #instant: Instant

  constructor(of: Lane) {
    this.queue = of.shard.served.queue.name
    this.shard = of.key.shard
    this.lane = Math.max(0, of.key.lane)
    this.tenantLane = of.key.lane < 0 ? of.key.lane : undefined
    this.#of = of
    this.#instant = of.shard.instant
  }

  /** The lane has changed. */
  update(): void {
    const of = this.#of
    this.#isClaimed = !of.isReady
    this.#waiting = of.waiting
    this.#isBegun = of.portions[0]?.isBegun === true
    this.#oldest = of.oldest
    this.#instant = of.shard.instant
  }

  get of(): Lane {
    return this.#of
  }

  get isClaimed(): boolean {
    return this.#isClaimed
  }

  get waiting(): number {
    return this.#waiting
  }

  get isBegun(): boolean {
    return this.#isBegun
  }

  get lag(): number {
    return Math.max((this.#instant.now - this.#oldest) / 1000, Number.MIN_VALUE)
  }
}
