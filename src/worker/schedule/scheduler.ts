import { OptionError } from '../../errors.ts'
import { show } from '../../options.ts'

/** A lane of a shard with due work that may be taken. */
export interface Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  /** ms since its oldest job became due, above 0. */
  readonly lag: number
  /** A claim of it is under way, and nothing is prefetched: a slot that picks it waits some milliseconds. Default false. */
  readonly isClaimed?: boolean
  /** Some jobs of a claim have begun; the rest is released if it does not begin soon. Default false. */
  readonly isBegun?: boolean
}

/**
 * Picks what a slot serves next: one of the candidates (the object itself, not a copy), or none. Candidates come in the
 * order of the queues, then by shard and lane. It is asked before each batch. If it throws, it picks none.
 */
export interface Scheduler {
  pick<C extends Candidate>(candidates: readonly C[]): C | undefined
}

/** The default: queues take turns, and within a queue its lanes do, lane n 1/(n + 1) times as often as lane 0. */
export function fair(): Scheduler {
  const queues = new Turns<string>()
  const lanesOf = new Map<string, Turns<number>>()
  return {
    pick(candidates) {
      const queue = queues.next(candidates, queueOf)
      if (queue === undefined) return undefined
      const turns = lanesOf.get(queue) ?? new Turns()
      lanesOf.set(queue, turns)
      const lane = turns.next(candidates, laneOf, (candidate) => candidate.queue === queue)!
      queues.take(queue, 1)
      turns.take(lane, lane + 1)
      return bestOf(candidates, queue, lane)
    },
  }
}

/**
 * Start-time fair queueing (Goyal, Vin and Cheng, 1996). A key that is picked pays with virtual time, and the key that has
 * paid least is next. The clock shows when the last picked key began: a key that had nothing due meanwhile comes soon, but
 * has saved nothing up.
 */
class Turns<Key> {
  readonly #finish = new Map<Key, number>()
  #now = 0

  next<C>(
    candidates: readonly C[],
    keyOf: (candidate: C) => Key,
    takesPart: (candidate: C) => boolean = () => true,
  ): Key | undefined {
    let next: Key | undefined
    let earliest = Number.POSITIVE_INFINITY
    let last: Key | undefined
    for (const candidate of candidates) {
      const key = keyOf(candidate)
      if (key === last || !takesPart(candidate)) continue
      last = key
      const start = this.#startOf(key)
      if (start >= earliest) continue
      earliest = start
      next = key
    }
    return next
  }

  take(key: Key, price: number): void {
    this.#now = this.#startOf(key)
    this.#finish.set(key, this.#now + price)
  }

  #startOf(key: Key): number {
    return Math.max(this.#finish.get(key) ?? 0, this.#now)
  }
}

/** Picks what has waited longest, in all queues: one queue's backlog goes before what came later into others. */
export function lag(): Scheduler {
  return {
    pick(candidates) {
      const longest = longestWaiting(candidates)
      return longest && bestOf(candidates, longest.queue, longest.lane)
    },
  }
}

/** Round robin over the shards and their lanes. */
export function seq(): Scheduler {
  const ranks = new Map<string, number>()
  let last = Number.NEGATIVE_INFINITY
  const rankOf = (queue: string) => {
    if (!ranks.has(queue)) ranks.set(queue, ranks.size)
    return ranks.get(queue)!
  }
  return {
    pick<C extends Candidate>(candidates: readonly C[]) {
      let [first, next]: (C | undefined)[] = []
      let [firstPlace, nextPlace] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
      let [queue, rank] = ['', 0]
      for (const candidate of candidates) {
        // Candidates of a queue come together, and looking up names is slow.
        if (candidate.queue !== queue) rank = rankOf(candidate.queue)
        queue = candidate.queue
        const place = placeOf(rank, candidate)
        if (place < firstPlace) [first, firstPlace] = [candidate, place]
        if (place > last && place < nextPlace) [next, nextPlace] = [candidate, place]
      }
      last = next ? nextPlace : firstPlace
      return next ?? first
    },
  }
}

/** Its place in the order of queues, shards and lanes: a shard has 17 bits, a lane 16. */
function placeOf(rank: number, { shard, lane }: Candidate): number {
  return (rank * 2 ** 17 + shard) * 2 ** 16 + lane
}

/** A weight for a queue as a whole, which its lanes share, or for each of its lanes. */
export type Weights = Readonly<Record<string, number | Readonly<Record<number, number>>>>

/**
 * Draws a queue and lane by weight among those that have something due. Weights 6, 3 and 1 come first 60, 30 and 10 % of
 * the time, and a queue that has nothing due leaves its turns to the others. What is not named weighs 1.
 * @throws OptionError for a weight that is not above 0
 */
export function weighted(weights: Weights): Scheduler {
  if (typeof weights !== 'object' || weights === null)
    throw new OptionError(
      `weighted: the weights must be an object such as { orders: 3 }, not ${show(weights)}`,
    )
  for (const [queue, weight] of Object.entries(weights)) {
    for (const one of typeof weight === 'object' ? Object.values(weight) : [weight]) {
      if (Number.isFinite(one) && one > 0) continue
      throw new OptionError(`weighted: the weight of "${queue}" must be a number above 0, not ${show(one)}`)
    }
  }
  const weightOf = (queue: string, lane: number, lanes: number) => {
    const weight = Object.hasOwn(weights, queue) ? weights[queue]! : 1
    return typeof weight === 'object' ? (weight[lane] ?? 1) : weight / lanes
  }
  return {
    pick(candidates) {
      const classes = [...groups(candidates, queueOf)].flatMap(([queue, members]) => {
        const lanes = groups(members, laneOf)
        return [...lanes].map(([lane, own]) => ({ own, weight: weightOf(queue, lane, lanes.size) }))
      })
      let ticket = Math.random() * classes.reduce((sum, { weight }) => sum + weight, 0)
      for (const { own, weight } of classes) {
        ticket -= weight
        if (ticket < 0) return bestOf(own, own[0]!.queue, own[0]!.lane)
      }
      return longestWaiting(candidates)
    },
  }
}

function groups<C, Key>(candidates: readonly C[], keyOf: (candidate: C) => Key): Map<Key, C[]> {
  const found = new Map<Key, C[]>()
  for (const candidate of candidates) {
    const key = keyOf(candidate)
    const members = found.get(key)
    if (members) members.push(candidate)
    else found.set(key, [candidate])
  }
  return found
}

/** Serves queues in the given order, those not named last; within a queue, the lower lane first. */
export function strict(queues: readonly string[]): Scheduler {
  if (!Array.isArray(queues))
    throw new OptionError(`strict: the queues must be a list of names, not ${show(queues)}`)
  const ranks = new Map(queues.map((queue, place) => [queue, place]))
  const rank = ({ queue, lane }: Candidate) => (ranks.get(queue) ?? queues.length) * 40_000 + lane
  return {
    pick(candidates) {
      let first = candidates[0]
      for (const candidate of candidates) {
        const difference = rank(candidate) - rank(first!)
        if (difference < 0 || (difference === 0 && candidate.lag > first!.lag)) first = candidate
      }
      return first && bestOf(candidates, first.queue, first.lane)
    },
  }
}

function queueOf({ queue }: Candidate): string {
  return queue
}

function laneOf({ lane }: Candidate): number {
  return lane
}

/**
 * Picks, among the shards of one queue and lane, the one that has waited longest. They are all equivalent, so jobs of a
 * claim that has partly begun come first, and a shard with a claim under way waits while another has something.
 */
function bestOf<C extends Candidate>(candidates: readonly C[], queue: string, lane: number): C | undefined {
  let best: C | undefined
  let most = -1
  for (const candidate of candidates) {
    if (candidate.queue !== queue || candidate.lane !== lane) continue
    const readiness = readinessOf(candidate)
    if (readiness < most || (readiness === most && candidate.lag <= best!.lag)) continue
    best = candidate
    most = readiness
  }
  return best
}

function readinessOf({ isBegun, isClaimed }: Candidate): number {
  if (isBegun) return 2
  return isClaimed ? 0 : 1
}

function longestWaiting<C extends Candidate>(candidates: readonly C[]): C | undefined {
  let longest = candidates[0]
  for (const candidate of candidates) if (candidate.lag > longest!.lag) longest = candidate
  return longest
}

/** @throws OptionError if it has no method `pick` */
export function checkScheduler(scheduler: Scheduler): Scheduler {
  if (typeof scheduler?.pick === 'function') return scheduler
  throw new OptionError(
    `scheduler must have a method \`pick\`: use fair(), lag(), seq(), weighted() or strict(), or write one`,
  )
}
