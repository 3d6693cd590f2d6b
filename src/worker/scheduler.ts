import { OptionError } from '../errors.ts'
import { show } from '../options.ts'

/** A lane of a shard with work that is due, free to be taken. */
export interface Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  /** ms since its oldest job became due, above 0. */
  readonly lag: number
}

/**
 * Picks what a slot serves next: one of the candidates, the very object, or none. They come in the order of the queues, then by
 * shard and lane. One that throws picks none.
 */
export interface Scheduler {
  pick<C extends Candidate>(candidates: readonly C[]): C | undefined
  /**
   * Whether a slot may take several batches of what was picked, where handlers are done with them in a few
   * milliseconds. Default false: it picks before each batch.
   */
  readonly takesAhead?: boolean
}

/** The default: what has waited longest. */
export function lag(): Scheduler {
  return { pick: longestWaiting, takesAhead: true }
}

/** Round robin over the shards. */
export function seq(): Scheduler {
  let last: Candidate | undefined
  return {
    pick(candidates) {
      const next =
        candidates.find((candidate) => last && isAfter(candidate, last, candidates)) ?? candidates[0]
      last = next
      return next
    },
  }
}

/** Whether a round that stands at `last` reaches `candidate` before it starts over. */
function isAfter(candidate: Candidate, last: Candidate, candidates: readonly Candidate[]): boolean {
  const queues = [...new Set(candidates.map(({ queue }) => queue))]
  const place = (of: Candidate) => [queues.indexOf(of.queue), of.shard, of.lane]
  const [a, b] = [place(candidate), place(last)]
  const differing = a.findIndex((value, index) => value !== b[index])
  return differing >= 0 && a[differing]! > b[differing]!
}

/** A weight for a queue as a whole, or for each of its lanes. */
export type Weights = Readonly<Record<string, number | Readonly<Record<number, number>>>>

/**
 * Draws queues and lanes by weight, without replacement: weights 6, 3 and 1 come first 60, 30 and 10 % of the
 * time, and what has nothing due leaves its turns to the others. What is not named weighs 1.
 * @throws OptionError for a weight that is not above 0
 */
export function weighted(weights: Weights): Scheduler {
  for (const [queue, weight] of Object.entries(weights)) {
    for (const one of typeof weight === 'object' ? Object.values(weight) : [weight]) {
      if (Number.isFinite(one) && one > 0) continue
      throw new OptionError(`weighted: the weight of "${queue}" must be a number above 0, not ${show(one)}`)
    }
  }
  const weightOf = ({ queue, lane }: Candidate) => {
    const weight = Object.hasOwn(weights, queue) ? weights[queue]! : 1
    return typeof weight === 'object' ? (weight[lane] ?? 1) : weight
  }
  return {
    pick(candidates) {
      const classes = byClass(candidates)
      let ticket =
        Math.random() * [...classes.values()].reduce((sum, members) => sum + weightOf(members[0]!), 0)
      for (const members of classes.values()) {
        ticket -= weightOf(members[0]!)
        if (ticket < 0) return longestWaiting(members)
      }
      return longestWaiting(candidates)
    },
  }
}

/** The candidates of each queue and lane. */
function byClass<C extends Candidate>(candidates: readonly C[]): Map<string, C[]> {
  const classes = new Map<string, C[]>()
  for (const candidate of candidates) {
    const key = `${candidate.lane} ${candidate.queue}`
    const members = classes.get(key)
    if (members) members.push(candidate)
    else classes.set(key, [candidate])
  }
  return classes
}

/** Queues in the order given, those not named last; within a queue the lower lane first. */
export function strict(queues: readonly string[]): Scheduler {
  const rank = ({ queue, lane }: Candidate) => {
    const place = queues.indexOf(queue)
    return (place < 0 ? queues.length : place) * 40_000 + lane
  }
  return {
    pick(candidates) {
      const first = Math.min(...candidates.map(rank))
      return longestWaiting(candidates.filter((candidate) => rank(candidate) === first))
    },
    takesAhead: true,
  }
}

function longestWaiting<C extends Candidate>(candidates: readonly C[]): C | undefined {
  let longest = candidates[0]
  for (const candidate of candidates) if (candidate.lag > longest!.lag) longest = candidate
  return longest
}

/** @throws OptionError unless it can pick */
export function checkScheduler(scheduler: Scheduler): Scheduler {
  if (typeof scheduler?.pick === 'function') return scheduler
  throw new OptionError(
    `scheduler must have a method \`pick\`: use lag(), seq(), weighted() or strict(), or write one`,
  )
}
