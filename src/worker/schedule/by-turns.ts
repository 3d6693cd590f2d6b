import { bestOfGroup } from './best.ts'
import { type Group, groupsOf } from './group.ts'
import type { Candidate, Scheduler, TakenJob } from './scheduler.ts'
import { Turns } from './turns.ts'

/** What queues pay for each job, in virtual time, and within a queue its lanes, and within lane 0 its tenants. */
export interface Prices {
  /** `lanes`: those that have something due. */
  ofQueue(queue: string, lanes: () => ReadonlySet<number>): number
  /** If lanes are drawn, at random: see Turns. */
  ofLane(queue: string, lane: number): number
  readonly drawsLanes?: boolean
  ofTenant(tenant: string | null): number
}

/** Queues take turns, and within a queue its lanes do, and within lane 0 the tenants. All of them pay by the job. */
export function byTurns(prices: Prices): Required<Pick<Scheduler, 'pick' | 'took'>> {
  const queues = new Turns<string>()
  const shares = new Map<string, QueueShares>()
  const sharesOf = (queue: string) => {
    const known = shares.get(queue) ?? new QueueShares(queue, prices)
    shares.set(queue, known)
    return known
  }
  return {
    pick(candidates, others = []) {
      const [groups, otherGroups] = [groupsOf(candidates), groupsOf(others)]
      const next = queues.next(groups, otherGroups, ({ queue }) => queue)
      if (!next) return undefined
      const { queue } = next
      const isOfQueue = (group: Group) => group.queue === queue
      const [mine, othersOfMine] = [groups.filter(isOfQueue), otherGroups.filter(isOfQueue)]
      const dueLanes = () => new Set([...mine, ...othersOfMine].map(({ lane }) => lane))
      queues.charge(queue, prices.ofQueue(queue, dueLanes))
      return bestOfGroup(candidates, sharesOf(queue).next(mine, othersOfMine))
    },
    took(candidate, jobs) {
      queues.settle(candidate.queue, (charged) => charged * jobs.length)
      sharesOf(candidate.queue).took(candidate, jobs)
    },
  }
}

/**
 * Jobs of a tenant that comes which are begun before those of others. If turns began at once, the first jobs of a tenant would
 * wait longer the more others have something due. It's no more after a week than after a second.
 */
const HEAD_START = 8

/** Jobs by which a tenant may be ahead of others while there are some left of those that a claim brought. */
const LONGEST_TURN = 8

/** The turns within a queue. */
class QueueShares {
  readonly #queue: string
  readonly #prices: Prices
  readonly #lanes: Turns<number>
  /** By their lanes; 0 stands for the jobs of lane 0 that are in none of those. */
  readonly #tenants = new Turns<number>({ credit: HEAD_START })
  /** What a job of each tenants' lane has cost lately: whose jobs the next ones are is not known before they are taken. */
  readonly #lately = new Map<number, number>()

  constructor(queue: string, prices: Prices) {
    this.#queue = queue
    this.#prices = prices
    this.#lanes = new Turns({ entry: prices.drawsLanes ? (lane) => prices.ofLane(queue, lane) : undefined })
  }

  /** The next one, which pays for one job. */
  next(groups: readonly Group[], others: readonly Group[]): Group {
    const { lane } = this.#lanes.next(groups, others, (group) => group.lane)!
    this.#lanes.charge(lane, this.#prices.ofLane(this.#queue, lane))
    const isOfLane = (group: Group) => group.lane === lane
    const [mine, othersOfMine] = [groups.filter(isOfLane), others.filter(isOfLane)]
    if (lane > 0) return mine[0]!
    const next = this.#tenants.next(mine, othersOfMine, tenantLaneOf, leadOf)!
    this.#tenants.charge(tenantLaneOf(next), this.#lately.get(tenantLaneOf(next)) ?? 1)
    return next
  }

  took(candidate: Candidate, jobs: readonly TakenJob[]): void {
    const { lane } = candidate
    this.#lanes.settle(lane, (charged) =>
      jobs.length === 0 ? 0 : charged + this.#priceOf(lane, jobs.length - 1),
    )
    if (lane > 0) return
    const cost = jobs.reduce((sum, { tenant }) => sum + this.#prices.ofTenant(tenant), 0)
    const tenantLane = tenantLaneOf(candidate)
    this.#tenants.settle(tenantLane, () => cost)
    if (jobs.length > 0) this.#lately.set(tenantLane, cost / jobs.length)
  }

  #priceOf(lane: number, jobs: number): number {
    let price = 0
    for (let job = 0; job < jobs; job += 1) price += this.#prices.ofLane(this.#queue, lane)
    return price
  }
}

function tenantLaneOf({ tenantLane = 0 }: Pick<Group, 'tenantLane'>): number {
  return tenantLane
}

/** What a claim brought goes on for some jobs: if each were another tenant's, claims would bring few, or release many. */
function leadOf({ isBegun }: Group): number {
  return isBegun ? LONGEST_TURN : 0
}
