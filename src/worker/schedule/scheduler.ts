import { OptionError } from '../../errors.ts'
import { MAX_LANE } from '../../job.ts'
import { isPlain, nameOf, show } from '../../options.ts'
import { type Group, groupsOf } from './group.ts'

/** A lane of a shard with due work that may be taken. */
export interface Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  /** ms since its oldest job became due, above 0. */
  readonly lag: number
  /** A claim of it is under way, and nothing is prefetched: a slot that picks it waits some milliseconds. Default false. */
  readonly isClaimed?: boolean
  /** How many slots wait for that claim. Default 0. */
  readonly waiting?: number
  /** Some jobs of a claim have begun; the rest is released if it does not begin soon. Default false. */
  readonly isBegun?: boolean
}

/**
 * Picks what a slot serves next: one of the candidates (the object itself, not a copy), or none. There is at least one. They
 * come in the order of the queues, then by shard and lane; those for whose claims other slots wait come last. It is asked
 * before each batch, also by a slot that waits for a claim: its candidates are what is prefetched, and `others` is what else
 * is due. If it picks none, or throws, it is asked again when something else becomes due, or after 50 ms.
 */
export interface Scheduler {
  pick<C extends Candidate>(candidates: readonly C[], others?: readonly C[]): C | undefined
  /** The queues that it knows by name, if any. A worker warns at its start of those that it does not serve. */
  readonly namedQueues?: readonly string[]
}

/** The default: queues take turns, and within a queue its lanes do, lane n 1/(n + 1) times as often as lane 0. */
export function fair(): Scheduler {
  return byTurns({ ofQueue: () => 1, ofLane: (_, lane) => 1 / (lane + 1) })
}

/** How often queues have their turn, and within a queue its lanes. */
interface Frequencies {
  /** `lanes`: those that have something due. */
  ofQueue(queue: string, lanes: () => ReadonlySet<number>): number
  ofLane(queue: string, lane: number): number
}

function byTurns({ ofQueue, ofLane }: Frequencies): Scheduler {
  const queues = new Turns<string>()
  const lanesByQueue = new Map<string, Turns<number>>()
  return {
    pick(candidates, others = []) {
      const [groups, otherGroups] = [groupsOf(candidates), groupsOf(others)]
      const next = queues.next(groups, otherGroups, ({ queue }) => queue)
      if (!next) return undefined
      const { queue } = next
      const lanes = lanesByQueue.get(queue) ?? new Turns()
      lanesByQueue.set(queue, lanes)
      const isOfQueue = (group: Group) => group.queue === queue
      const [mine, othersOfMine] = [groups.filter(isOfQueue), otherGroups.filter(isOfQueue)]
      const { lane } = lanes.next(mine, othersOfMine, (group) => group.lane)!
      const dueLanes = () => new Set([...mine, ...othersOfMine].map((group) => group.lane))
      queues.pay(queue, 1 / ofQueue(queue, dueLanes))
      lanes.pay(lane, 1 / ofLane(queue, lane))
      return bestOf(candidates, queue, lane)
    },
  }
}

/** Most that a key keeps of its turns, in the price of a turn. */
const MOST_KEPT = 1_000

/**
 * Start-time fair queueing (Goyal, Vin and Cheng, 1996). A key that is picked pays with virtual time, and the key that has
 * paid least is next. The clock shows when the first of those that are due begins. So a key that had nothing due meanwhile
 * comes soon, but has saved nothing up; one that was due, and could not be picked, keeps its turns, up to a limit: the server
 * may answer a claim after seconds.
 */
class Turns<Key> {
  readonly #finish = new Map<Key, number>()
  #now = 0

  /** Picks the one whose key is next, the first of several. */
  next<C>(candidates: readonly C[], others: readonly C[], keyOf: (candidate: C) => Key): C | undefined {
    const [next, start] = this.#first(candidates, keyOf)
    const [, otherStart] = this.#first(others, keyOf)
    if (next !== undefined) this.#now = Math.max(Math.min(start, otherStart), start - MOST_KEPT)
    return next
  }

  pay(key: Key, price: number): void {
    this.#finish.set(key, this.#startOf(key) + price)
  }

  #first<C>(candidates: readonly C[], keyOf: (candidate: C) => Key): [C | undefined, start: number] {
    let [first, earliest]: [C | undefined, number] = [undefined, Number.POSITIVE_INFINITY]
    for (const candidate of candidates) {
      const start = this.#startOf(keyOf(candidate))
      if (start >= earliest) continue
      first = candidate
      earliest = start
    }
    return [first, earliest]
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
  const turns = new Turns<number>()
  const ranks = new Map<string, number>()
  const placeOf = ({ queue, shard, lane }: Candidate) => {
    if (!ranks.has(queue)) ranks.set(queue, ranks.size)
    // A shard has 17 bits, a lane 16.
    return (ranks.get(queue)! * 2 ** 17 + shard) * 2 ** 16 + lane
  }
  return {
    pick(candidates, others = []) {
      const next = turns.next(candidates, others, placeOf)
      if (next) turns.pay(placeOf(next), 1)
      return next
    },
  }
}

const LEAST_WEIGHT = 0.001
const MOST_WEIGHT = 1_000

/** A weight for a queue as a whole, from 0.001 to 1,000, which its lanes share, or for each of its lanes. */
export type Weights = Readonly<Record<string, number | Readonly<Record<number, number>>>>

/**
 * Queues and lanes take turns by weight: with weights 6, 3 and 1, they have 60, 30 and 10 % of the turns. A queue that has
 * nothing due leaves its turns to the others. What is not named weighs 1.
 * Weights are from 0.001 to 1,000: at greater distances, floating-point numbers could no longer add up the turns.
 * @throws OptionError for another weight, or for a lane that is no number from 0 to 32767
 */
export function weighted(weights: Weights): Scheduler {
  checkWeights(weights)
  const weightOf = (queue: string) => (Object.hasOwn(weights, queue) ? weights[queue]! : 1)
  const ofLane = (queue: string, lane: number) => {
    const weight = weightOf(queue)
    return typeof weight === 'object' ? (weight[lane] ?? 1) : 1
  }
  const turns = byTurns({
    ofQueue(queue, lanes) {
      const weight = weightOf(queue)
      if (typeof weight === 'number') return weight
      return [...lanes()].reduce((sum, lane) => sum + ofLane(queue, lane), 0)
    },
    ofLane,
  })
  return { ...turns, namedQueues: Object.keys(weights) }
}

function checkWeights(weights: Weights): void {
  if (!isPlain(weights))
    throw new OptionError(
      `weighted: the weights must be an object such as { orders: 3 }, not ${nameOf(weights)}`,
    )
  for (const [queue, weight] of Object.entries(weights)) {
    const byLane = typeof weight === 'object' && weight !== null ? weight : { 0: weight }
    for (const [lane, one] of Object.entries(byLane)) {
      if (!/^(0|[1-9]\d*)$/.test(lane) || Number(lane) > MAX_LANE)
        throw new OptionError(
          `weighted: a lane of "${queue}" must be a whole number from 0 to ${MAX_LANE}, not ${show(lane)}`,
        )
      if (typeof one !== 'number' || !(one >= LEAST_WEIGHT && one <= MOST_WEIGHT))
        throw new OptionError(
          `weighted: the weight of "${queue}" must be a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}, not ${show(one)}`,
        )
    }
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
      return bestOf(candidates, first.queue, first.lane)
    },
  }
}

/**
 * Picks, among the shards of one queue and lane, the one that has waited longest. They are all equivalent, so jobs of a
 * claim that has partly begun come first, and a shard with a claim under way waits while another has something. If all of
 * them are being claimed, the slots spread.
 */
function bestOf<C extends Candidate>(candidates: readonly C[], queue: string, lane: number): C | undefined {
  let best: C | undefined
  let most = Number.NEGATIVE_INFINITY
  for (const candidate of candidates) {
    if (candidate.queue !== queue || candidate.lane !== lane) continue
    const readiness = readinessOf(candidate)
    if (readiness < most || (readiness === most && candidate.lag <= best!.lag)) continue
    best = candidate
    most = readiness
  }
  return best
}

function readinessOf({ isBegun, isClaimed, waiting = 0 }: Candidate): number {
  if (isBegun) return 2
  return isClaimed ? -waiting : 1
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
