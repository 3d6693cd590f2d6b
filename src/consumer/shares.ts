import type { Lane } from '../worker/schedule/lane.ts'
import { Turns } from '../worker/schedule/turns.ts'

/** Jobs of a tenant that comes which are claimed before those of others. */
const HEAD_START = 8

/** How many jobs a claim takes from a lane. */
export interface Share {
  readonly lane: Lane
  readonly count: number
}

/** A lane of a queue, in all shards in which something is due there. */
interface Group {
  readonly number: number
  readonly lanes: Lane[]
}

/**
 * Shares what is claimed from a queue among its lanes, by the number of jobs: the one from which least was taken is next, and lane n
 * counts 1/(n + 1) times as much as lane 0, as workers have it by default. So tenants, which have lanes of their own, don't wait behind
 * each other's backlogs. Within a lane, shards come in the order of their oldest jobs.
 */
export class Shares {
  readonly #turns = new Turns<number>({ credit: HEAD_START })

  /** `lanes`: what is due, the oldest in front. */
  of(lanes: readonly Lane[], wanted: number): Share[] {
    const groups = groupsOf(lanes)
    if (groups.length === 1) return spread(lanes, wanted)
    // In the order of their turns: limits may leave places for the first alone.
    const counts = new Map<Group, number>()
    for (let job = 0; job < wanted; job += 1) {
      const group = this.#turns.next(groups, [], ({ number }) => number)!
      this.#turns.charge(group.number, priceOf(group.number))
      counts.set(group, (counts.get(group) ?? 0) + 1)
    }
    return [...counts].flatMap(([group, count]) => spread(group.lanes, count))
  }

  /** A claim of a share has brought so many jobs. */
  took({ lane, count }: Share, jobs: number): void {
    const price = priceOf(lane.key.lane)
    for (let job = 0; job < count; job += 1) this.#turns.settle(lane.key.lane, () => (job < jobs ? price : 0))
  }
}

/** What a job of a lane costs, in virtual time. Lanes of tenants are below 0. */
function priceOf(lane: number): number {
  return Math.max(0, lane) + 1
}

function groupsOf(lanes: readonly Lane[]): Group[] {
  const groups = new Map<number, Group>()
  for (const lane of lanes) {
    const number = lane.key.lane
    const group = groups.get(number)
    if (group) group.lanes.push(lane)
    else groups.set(number, { number, lanes: [lane] })
  }
  return [...groups.values()]
}

/** As equal as can be, the first lanes in front. */
function spread(lanes: readonly Lane[], wanted: number): Share[] {
  const some = lanes.slice(0, wanted)
  return some.map((lane, place) => ({
    lane,
    count: Math.floor(wanted / some.length) + (place < wanted % some.length ? 1 : 0),
  }))
}
