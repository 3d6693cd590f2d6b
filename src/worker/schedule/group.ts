import type { Candidate } from './scheduler.ts'

/** The candidates of one queue and lane. Their shards are equivalent: only one of them needs to be considered. */
export interface Group<C extends Candidate = Candidate> {
  readonly queue: string
  readonly lane: number
  /**
   * The one that has waited longest. But jobs of a claim that has partly begun come first, and a shard with a claim under
   * way waits while another has something. If all of them are being claimed, the slots spread.
   */
  best: C
  /** Of the best. */
  readiness: number
  /** ms that the one of them has waited that has waited longest. */
  lag: number
}

/** In the order in which they come first. One pass, since a slot may have thousands of candidates before each batch. */
export function groupsOf<C extends Candidate>(candidates: readonly C[]): readonly Group<C>[] {
  const groups = new Groups<C>()
  let group: Group<C> | undefined
  for (const candidate of candidates) {
    const { queue, lane, lag } = candidate
    const readiness = readinessOf(candidate)
    // Most follow one of the same group.
    if (group?.lane !== lane || group.queue !== queue) group = groups.get(queue, lane)
    if (!group) {
      group = { queue, lane, best: candidate, readiness, lag }
      groups.add(group)
    } else {
      if (readiness > group.readiness || (readiness === group.readiness && lag > group.best.lag)) {
        group.best = candidate
        group.readiness = readiness
      }
      if (lag > group.lag) group.lag = lag
    }
  }
  return groups.all
}

class Groups<C extends Candidate> {
  readonly all: Group<C>[] = []
  readonly #byLane = new Map<string, Map<number, Group<C>>>()

  get(queue: string, lane: number): Group<C> | undefined {
    return this.#byLane.get(queue)?.get(lane)
  }

  add(group: Group<C>): void {
    this.all.push(group)
    const lanes = this.#byLane.get(group.queue) ?? new Map()
    this.#byLane.set(group.queue, lanes.set(group.lane, group))
  }
}

function readinessOf({ isBegun, isClaimed, waiting = 0 }: Candidate): number {
  if (isBegun) return 2
  return isClaimed ? -waiting : 1
}
