import type { Lane } from './lane.ts'
import type { Candidate } from './scheduler.ts'

/** A lane as a scheduler sees it, and the lane itself. */
export class DueLane implements Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  readonly of: Lane

  constructor(of: Lane) {
    this.queue = of.shard.served.queue.name
    this.shard = of.key.shard
    this.lane = of.key.lane
    this.of = of
  }

  get lag(): number {
    return Math.max((this.of.shard.instant.now - this.of.oldest) / 1000, Number.MIN_VALUE)
  }

  get isClaimed(): boolean {
    return !this.of.isReady
  }

  get waiting(): number {
    return this.of.waiting
  }

  get isBegun(): boolean {
    return this.of.portions[0]?.isBegun === true
  }
}
