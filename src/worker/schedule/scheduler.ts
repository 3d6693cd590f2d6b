import { OptionError } from '../../errors.ts'
import { MAX_LANE } from '../../job.ts'
import { nameOf, show } from '../../options.ts'
import { bestOfLane } from './best.ts'
import { Turns } from './turns.ts'

/** A lane of a shard with due work that may be taken. */
export interface Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  /**
   * Which of the lanes that tenants have in a queue without rules: a number from -1 to -32. `lane` is 0 then, for each of
   * them. Default: none.
   */
  readonly tenantLane?: number | undefined
  /** ms since its oldest job became due, above 0. */
  readonly lag: number
  /** A claim of it is under way, and nothing is prefetched: a slot that picks it waits some milliseconds. Default false. */
  readonly isClaimed?: boolean
  /** How many slots wait for that claim. Default 0. */
  readonly waiting?: number
  /** Some jobs of a claim have begun; the rest is released if it does not begin soon. Default false. */
  readonly isBegun?: boolean
}

/** A job that a slot has taken. */
export interface TakenJob {
  readonly tenant: string | null
}

/**
 * Picks what a slot serves next: one of the candidates (the object itself, not a copy), or none. There is at least one. They
 * come in the order of the queues, then by shard and lane; those for whose claims other slots wait come last. It is asked
 * before each batch, also by a slot that waits for a claim: its candidates are what is prefetched, and `others` is what else
 * is due. If it picks none, or throws, it is asked again when something else becomes due, or after 50 ms.
 */
export interface Scheduler {
  pick<C extends Candidate>(candidates: readonly C[], others?: readonly C[]): C | undefined
  /**
   * What a slot has taken of a candidate that was picked for it: a batch, whose handler begins now, or nothing, since the
   * jobs were gone or others took them. It comes once for each pick; other slots may pick in between. If it throws, that is
   * told, and the slot goes on.
   */
  took?(candidate: Candidate, jobs: readonly TakenJob[]): void
  /** The queues that it knows by name, if any. A worker warns at its start of those that it does not serve. */
  readonly namedQueues?: readonly string[]
}

/** Picks what has waited longest, in all queues: one queue's backlog goes before what came later into others. */
export function lag(): Scheduler {
  return {
    pick(candidates) {
      const longest = longestWaiting(candidates)
      return longest && bestOfLane(candidates, longest)
    },
  }
}

/** Round robin over the shards and their lanes. */
export function seq(): Scheduler {
  const turns = new Turns<number>()
  const ranks = new Map<string, number>()
  const placeOf = ({ queue, shard, lane, tenantLane }: Candidate) => {
    if (!ranks.has(queue)) ranks.set(queue, ranks.size)
    // A shard has 17 bits, a lane 15, and the lanes of tenants come behind.
    const laneOfShard = tenantLane === undefined ? lane : MAX_LANE - tenantLane
    return (ranks.get(queue)! * 2 ** 17 + shard) * 2 ** 16 + laneOfShard
  }
  return {
    pick(candidates, others = []) {
      const next = turns.next(candidates, others, placeOf)
      if (next) turns.charge(placeOf(next), 1)
      return next
    },
  }
}

/**
 * Serves queues in the given order, those not named last; within a queue, the lower lane first.
 * @throws OptionError for what is no list of names, or names a queue twice
 */
export function strict(queues: readonly string[]): Scheduler {
  if (!Array.isArray(queues))
    throw new OptionError(`strict: the queues must be a list of names, not ${show(queues)}`)
  for (const queue of queues)
    if (typeof queue !== 'string')
      throw new OptionError(`strict: each of the queues must be a name, not ${nameOf(queue)}`)
  const twice = queues.find((queue, place) => queues.indexOf(queue) !== place)
  if (twice !== undefined) throw new OptionError(`strict: "${twice}" is named twice`)
  const ranks = new Map(queues.map((queue, place) => [queue, place]))
  const rank = ({ queue, lane }: Candidate) => (ranks.get(queue) ?? queues.length) * 40_000 + lane
  return {
    namedQueues: [...queues],
    pick(candidates, others = []) {
      let first = candidates[0]
      for (const candidate of candidates) {
        const difference = rank(candidate) - rank(first!)
        if (difference < 0 || (difference === 0 && candidate.lag > first!.lag)) first = candidate
      }
      if (!first || others.some((other) => rank(other) < rank(first))) return undefined
      return bestOfLane(candidates, first)
    },
  }
}

function longestWaiting<C extends Candidate>(candidates: readonly C[]): C | undefined {
  let longest = candidates[0]
  for (const candidate of candidates) if (candidate.lag > longest!.lag) longest = candidate
  return longest
}

/** @throws OptionError if it has no method `pick`, or another `took` than a method */
export function checkScheduler(scheduler: Scheduler): Scheduler {
  if (typeof scheduler?.pick !== 'function')
    throw new OptionError(
      `scheduler must have a method \`pick\`: use fair(), lag(), seq(), weighted() or strict(), or write one`,
    )
  if (!['undefined', 'function'].includes(typeof scheduler.took))
    throw new OptionError(`scheduler.took must be a method, not ${show(scheduler.took)}`)
  return scheduler
}
