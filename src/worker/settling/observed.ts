import type { ObservedBatch, ObservedRound, PerformedBatch, Spans } from '../../instrumentation.ts'
import type { Round } from '../../store/claim.ts'
import type { Lane } from '../schedule/lane.ts'
import type { Claimant } from './claimant.ts'

/** A round as instruments see it: without payloads, which may contain what no log should have. */
export function observedRound({ id, fence, retryCount, crashes, scores }: Round): ObservedRound {
  // A handler may have changed the list of its payloads.
  return { id, fence, retryCount, crashes, payloads: scores.length }
}

type Place = Omit<ObservedBatch, 'rounds'>

function placeOf({ processId, served, shard, slot }: Claimant): Place {
  return { processId, queue: served.queue.name, shard, slot }
}

/** Rounds of a batch, and where they are performed. */
export function observed(claimant: Claimant, rounds: readonly Round[]): ObservedBatch {
  return { rounds: rounds.map(observedRound), ...placeOf(claimant) }
}

/**
 * Rounds whose handler begins at `now`, in microseconds of the server's clock. (What is spread comes last here: with Node 20, each
 * field behind it takes a microsecond.)
 */
export function performed(claimant: Claimant, rounds: readonly Round[], now: number): PerformedBatch {
  const began = (round: Round) => ({
    performIn: new Date(round.performIn / 1000),
    waited: Math.max(0, (now - round.performIn) / 1000),
    headers: round.headers,
    ...observedRound(round),
  })
  return { rounds: rounds.map(began), ...placeOf(claimant) }
}

/** A claim of a lane, when it begins. */
export function claimOf({ key, shard }: Lane, processId: number, asked: number): Spans['claim'][0] {
  return { processId, queue: shard.served.queue.name, shard: key.shard, lane: key.lane, asked }
}

/** What the claim has brought. */
export function observedClaim({ rounds }: { readonly rounds: readonly Round[] }): Spans['claim'][1] {
  return { rounds: rounds.map(observedRound) }
}
