import { type Instant, Lane } from './lane.ts'
import type { ServedQueue } from './served-queue.ts'

/** A shard this process holds the lock of. Any number of its slots perform from it. */
export class Shard {
  readonly served: ServedQueue
  readonly shard: number
  /** The one slot that serves it; undefined: any. */
  readonly slot: number | undefined
  /** Written by the timetable. */
  isHeld = false
  instant: Instant = { now: 0 }
  readonly lanes = new Map<number, Lane>()

  constructor(served: ServedQueue, shard: number, slot?: number) {
    this.served = served
    this.shard = shard
    this.slot = slot
    // So that looks find what comes there before anything was heard of it.
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
