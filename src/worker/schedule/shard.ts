import { type Instant, Lane } from './lane.ts'
import type { ServedQueue } from './served-queue.ts'

/** A shard whose lock this process holds. Any number of its slots may perform from it. */
export class Shard {
  readonly served: ServedQueue
  readonly shard: number
  /** The only slot that serves it; undefined if any may. */
  readonly slot: number | undefined
  /** Written by the timetable. */
  isHeld = false
  instant: Instant = { now: 0 }
  readonly lanes = new Map<number, Lane>()

  constructor(served: ServedQueue, shard: number, slot?: number) {
    this.served = served
    this.shard = shard
    this.slot = slot
    // So that looks find jobs there before anything is reported about these lanes.
    for (const lane of served.lanes) this.lane(lane)
  }

  lane(lane: number): Lane {
    let found = this.lanes.get(lane)
    if (!found) {
      found = new Lane(this, lane)
      this.lanes.set(lane, found)
    }
    return found
  }
}
