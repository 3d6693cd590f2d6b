import { LAST_TENANT_LANE } from '../../job.ts'
import type { Queue } from '../../queue.ts'
import { Peers } from './joinable.ts'
import type { Lane } from './lane.ts'
import { Prefetch } from './prefetch.ts'
import { WithheldLanes } from './withheld-lanes.ts'

/**
 * Most lanes of a queue that are polled in all of its shards, beside those of tenants. Further lanes are polled only where they
 * have been seen.
 */
const MOST_LANES = 16

const TENANT_LANES = Array.from({ length: -LAST_TENANT_LANE }, (_, place) => -1 - place)

/** A queue as this worker serves it: its definition, the number of its row, and what is known about its handler. */
export class ServedQueue {
  readonly queue: Queue
  /** For a consumer, another one once the queue was deleted and made again. */
  queueId: number
  /** Its place in the order of definition. */
  readonly place: number
  readonly prefetch: Prefetch
  /** Lanes seen in any shard, and 0 from the start: a lane that is new to one shard may come in each. */
  readonly lanes = new Set([0])
  /** Lanes with prefetched jobs. */
  readonly prefetched = new Set<Lane>()
  /** Lanes in which limits keep something waiting. */
  readonly withheldLanes = new WithheldLanes()
  /** How many slots are serving it. */
  slots = 0
  readonly #peers = new Map<number, Peers>()

  constructor(queue: Queue, queueId: number, place = 0) {
    this.queue = queue
    this.queueId = queueId
    this.place = place
    this.prefetch = new Prefetch(queue.batchSize, queue.limits === undefined)
  }

  /** A lane has been seen, or is a tenant's. Returns whether it is to be known in all shards from now on. */
  meets(lane: number): boolean {
    if (this.lanes.has(lane)) return false
    if (lane >= 0 && [...this.lanes].filter((known) => known >= 0).length >= MOST_LANES) return false
    this.lanes.add(lane)
    return true
  }

  /** Whether tenants may have lanes that are not known. */
  get mayMeetTenants(): boolean {
    return !TENANT_LANES.every((lane) => this.lanes.has(lane))
  }

  /** Whether lanes of tenants are known. */
  get hasTenants(): boolean {
    for (const lane of this.lanes) if (lane < 0) return true
    return false
  }

  peersOf(lane: number): Peers {
    const peers = this.#peers.get(lane) ?? new Peers()
    this.#peers.set(lane, peers)
    return peers
  }

  /** Whether somebody takes its jobs, or does once it is done with others. */
  get isWanted(): boolean {
    return true
  }

  /** How many more slots may serve it; Infinity if the queue sets no limit. */
  get room(): number {
    return (this.queue.concurrency ?? Number.POSITIVE_INFINITY) - this.slots
  }
}
