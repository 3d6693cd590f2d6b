import type { ObservedBatch, ObservedRound, Spans } from '../../instrumentation.ts'
import type { Round } from '../../store/claim.ts'
import type { Lane } from '../schedule/lane.ts'
import type { Claimant } from './claimant.ts'

/** A round as instruments see it: without payloads, which may contain what no log should have. */
export function observedRound({ id, fence, retryCount, crashes }: Round): ObservedRound {
  return { id, fence, retryCount, crashes }
}

/** Rounds of a batch, and where they are performed. */
export function observed(claimant: Claimant, rounds: readonly Round[]): ObservedBatch {
  const { processId, served, shard, slot } = claimant
  return { processId, queue: served.queue.name, shard, slot, rounds: rounds.map(observedRound) }
}

/** A claim of a lane, when it begins. */
export function claimOf({ key, shard }: Lane, processId: number, asked: number): Spans['claim'][0] {
  return { processId, queue: shard.served.queue.name, shard: key.shard, lane: key.lane, asked }
}

/** What the claim has brought. */
export function observedClaim({ rounds }: { readonly rounds: readonly Round[] }): Spans['claim'][1] {
  return { rounds: rounds.map(observedRound) }
}
