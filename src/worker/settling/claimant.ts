import type { Retention } from '../membership/membership.ts'
import type { Lane } from '../schedule/lane.ts'
import type { ServedQueue } from '../schedule/served-queue.ts'

/** The owner of rounds: a slot's batch, begun at `startedAt` ms of the monotonic clock. */
export interface Claimant extends Retention {
  readonly served: ServedQueue
  readonly shard: number
  readonly slot: number
  readonly startedAt: number
}

/** The owner of rounds of the lane that begin now, or are let go. */
export function claimantOf({ shard }: Lane, { processId, release }: Retention, slot: number): Claimant {
  return {
    processId,
    release,
    served: shard.served,
    shard: shard.shard,
    slot,
    startedAt: performance.now(),
  }
}
