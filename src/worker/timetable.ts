import type { Queue } from '../queue.ts'
import type { Claim, Cursor, LaneKey, Round } from '../store/claim.ts'
import { Appetite } from './appetite.ts'
import { Bell } from './bell.ts'
import type { Candidate } from './scheduler.ts'
import type { ServerClock } from './server-clock.ts'

/** A queue as this worker knows it: its definition and its row. */
export interface ServedQueue {
  readonly queueId: number
  readonly queue: Queue
}

/** ms between tries to get a row that others hold. */
const MAX_BLOCKED_PAUSE = 200

const START: Cursor = { after: null, afterId: '' }

/** Claims that pass a job over, after which its row is waited for. */
const PASSES = 2

/** What was claimed for a lane apart from its slots: it waits for the next of them. */
export interface Brought {
  readonly processId: number
  readonly rounds: Round[]
}

/** What is known of a lane: when its next job is due, and how far it has been taken. */
export class Lane {
  readonly shard: Shard
  readonly key: LaneKey
  cursor = START
  brought: Brought | undefined
  #head = Number.POSITIVE_INFINITY
  readonly appetite: Appetite
  /** The earliest time heard of since the claim under way began: its answer may not know of it yet. */
  #heard = Number.POSITIVE_INFINITY
  #blockedClaims = 0
  /** When the job was due that the last claims have passed over, and how many they were. */
  #passed: number | undefined
  #passes = 0
  #taken = 0

  constructor(shard: Shard, lane: number) {
    this.shard = shard
    this.key = { queueId: shard.served.queueId, shard: shard.shard, lane }
    this.appetite = new Appetite(shard.served.queue.batchSize)
  }

  /** Microseconds since 1970; Infinity: nothing to come is known. */
  get head(): number {
    const [brought] = this.brought?.rounds ?? []
    return Math.min(this.#head, brought?.performIn ?? Number.POSITIVE_INFINITY)
  }

  /** A job may be due at `performIn`; the cursor goes back before it where it has passed. Says if that is earlier. */
  notice(performIn: number): boolean {
    const earlier = performIn < this.#head
    this.#head = Math.min(this.#head, performIn)
    this.#heard = Math.min(this.#heard, performIn)
    if (this.cursor.after !== null && performIn <= this.cursor.after) this.#rewind(performIn)
    return earlier
  }

  /** How many jobs a claim may bring: twice as many as the last one, and one for what came meanwhile. */
  get likely(): number {
    return 2 * this.#taken + 1
  }

  claimBegins(): void {
    this.#heard = Number.POSITIVE_INFINITY
  }

  claimEnded({ rounds, head, passed }: Claim, now: number): void {
    const last = rounds.at(-1)
    this.#taken = rounds.length
    if (last) this.cursor = { after: last.performIn, afterId: last.id }
    this.#head = Math.min(head ?? Number.POSITIVE_INFINITY, this.#heard)
    if (this.#heard <= (this.cursor.after ?? Number.NEGATIVE_INFINITY)) this.#rewind(this.#heard)
    const isDue = head !== null && head <= now
    this.#countPasses(passed || (!last && isDue) ? head! : undefined)
    const blocked = !last && this.#head <= now
    this.#blockedClaims = blocked ? this.#blockedClaims + 1 : 0
    // Due, but not to be had: a producer's open transaction holds the row. Ask again, ever more rarely.
    if (blocked) this.#head = now + Math.min(2 ** this.#blockedClaims, MAX_BLOCKED_PAUSE) * 1000
  }

  /** When a job was due that is to be waited for: claims have passed it over again and again, since its row was locked. */
  get overdue(): number | undefined {
    return this.#passes >= PASSES ? this.#passed : undefined
  }

  takeBrought(): Brought | undefined {
    const { brought } = this
    this.brought = undefined
    return brought
  }

  /** Nothing is to be had before this time. */
  postpone(until: number): void {
    this.#head = Math.max(this.#head, until)
  }

  /** At first the cursor goes back for it. Afterwards it may not: a row that stays locked would keep it there. */
  #countPasses(passed: number | undefined): void {
    this.#passes = passed === this.#passed ? this.#passes + 1 : 1
    this.#passed = passed
    if (passed !== undefined && this.#passes < PASSES) this.#rewind(passed)
  }

  #rewind(performIn: number): void {
    this.cursor = { after: performIn - 1, afterId: '' }
  }
}

/** A shard this process holds the lock of. `busy` while a slot works on it: it is never worked on twice at once. */
export class Shard {
  readonly served: ServedQueue
  readonly shard: number
  /** The one slot that serves it; undefined: any. */
  readonly slot: number | undefined
  readonly lanes = new Map<number, Lane>()
  busy = false
  /** To be let go as soon as it isn't busy. */
  leaving = false

  constructor(served: ServedQueue, shard: number, slot: number | undefined) {
    this.served = served
    this.shard = shard
    this.slot = slot
  }

  lane(lane: number): Lane {
    let found = this.lanes.get(lane)
    if (!found) {
      found = new Lane(this, lane)
      this.lanes.set(lane, found)
    }
    return found
  }
}

/** A candidate with the lane behind it. */
export interface DueLane extends Candidate {
  readonly lane: number
  readonly of: Lane
}

/** The shards of this process and when their jobs are due: what slots pick from, and wait on. */
export class Timetable {
  readonly bell = new Bell()
  readonly #clock: ServerClock
  readonly #shards = new Map<string, Shard>()

  constructor(clock: ServerClock) {
    this.#clock = clock
  }

  get shards(): Iterable<Shard> {
    return this.#shards.values()
  }

  get hasFreeShard(): boolean {
    for (const _ of this.#free(undefined)) return true
    return false
  }

  get(queueId: number, shard: number): Shard | undefined {
    return this.#shards.get(`${queueId}:${shard}`)
  }

  add(shard: Shard): void {
    this.#shards.set(`${shard.served.queueId}:${shard.shard}`, shard)
  }

  remove(shard: Shard): void {
    this.#shards.delete(`${shard.served.queueId}:${shard.shard}`)
  }

  clear(): void {
    this.#shards.clear()
  }

  /**
   * Passes on what a wake-up, a look or a settlement has told. Says whether it was news of a shard of ours, and
   * if so wakes the slots: they have slept on what they knew.
   */
  notice({ queueId, shard, lane }: LaneKey, performIn: number): boolean {
    const news = this.get(queueId, shard)?.lane(lane).notice(performIn) ?? false
    if (news) this.bell.ring()
    return news
  }

  /** What a slot may take now. */
  due(slot: number): DueLane[] {
    const now = this.#clock.now()
    const due: DueLane[] = []
    for (const shard of this.#free(slot)) {
      for (const lane of shard.lanes.values()) {
        if (lane.head > now) continue
        const lag = Math.max((now - lane.head) / 1000, Number.MIN_VALUE)
        due.push({ queue: shard.served.queue.name, shard: shard.shard, lane: lane.key.lane, lag, of: lane })
      }
    }
    return due
  }

  /** ms until the next job is due that a slot, or any, could take; Infinity where none is known, 0 where one is. */
  untilNext(slot?: number): number {
    let next = Number.POSITIVE_INFINITY
    for (const shard of this.#free(slot)) {
      for (const lane of shard.lanes.values()) next = Math.min(next, lane.head)
    }
    return Math.max(0, (next - this.#clock.now()) / 1000)
  }

  /** Shards nobody works on that the slot may serve. */
  *#free(slot: number | undefined): Iterable<Shard> {
    for (const shard of this.#shards.values()) {
      if (shard.busy || shard.leaving) continue
      if (slot === undefined || shard.slot === undefined || shard.slot === slot) yield shard
    }
  }
}
