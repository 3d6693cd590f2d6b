import { type Group, isOf } from './group.ts'
import type { Candidate } from './scheduler.ts'

/**
 * Picks, among the shards of one queue and lane, the one that has waited longest. They are all equivalent, so jobs of a
 * claim that has partly begun come first, and a shard with a claim under way waits while another has something. If all of
 * them are being claimed, the slots spread.
 */
export function bestOf<C extends Candidate>(
  candidates: readonly C[],
  isEligible: (candidate: C) => boolean,
): C | undefined {
  let best: C | undefined
  let most = Number.NEGATIVE_INFINITY
  for (const candidate of candidates) {
    if (!isEligible(candidate)) continue
    const readiness = readinessOf(candidate)
    if (readiness < most || (readiness === most && candidate.lag <= best!.lag)) continue
    best = candidate
    most = readiness
  }
  return best
}

/** Of one tenants' lane, if the group is one. */
export function bestOfGroup<C extends Candidate>(candidates: readonly C[], group: Group): C | undefined {
  return bestOf(candidates, (candidate) => isOf(candidate, group))
}

/** Of all tenants. */
export function bestOfLane<C extends Candidate>(
  candidates: readonly C[],
  { queue, lane }: Pick<Candidate, 'queue' | 'lane'>,
): C | undefined {
  return bestOf(candidates, (candidate) => candidate.queue === queue && candidate.lane === lane)
}

function readinessOf({ isBegun, isClaimed, waiting = 0 }: Candidate): number {
  if (isBegun) return 2
  return isClaimed ? -waiting : 1
}
