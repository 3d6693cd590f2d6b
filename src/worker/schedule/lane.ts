import type { Claim, Cursor, LaneKey, Round } from '../../store/claim.ts'
import type { Spots, WaitingJob } from '../../store/limits.ts'
import { DueLane } from './due-lane.ts'
import type { Peers } from './joinable.ts'
import { Majority } from './majority.ts'
import { before, NEVER, START } from './places.ts'
import type { Portion } from './portion.ts'
import { LONGEST_PREFETCHED } from './prefetch.ts'
import type { Region } from './region.ts'
import type { Shard } from './shard.ts'
import { Withholding } from './withheld.ts'

/**
 * ms from a portion's end to the next one's turn, above which nothing is claimed ahead: the turn after may come even later,
 * when the portion would have been released.
 */
const LONGEST_WAIT_AHEAD = 0.8 * LONGEST_PREFETCHED

/**
 * µs before a claim within which a job became due by our clock: by the server's it may not have been when the claim arrived.
 */
const BARELY_DUE = 1_000

/** Most ms between tries to claim a row that others hold. */
const MAX_BLOCKED_PAUSE = 200

/** ms that a slot waits for a claim that another slot has begun: if the server is slow, others would have no slots. */
export const LONGEST_JOINED = 50

/** How many claims pass over a job before we wait for its row. */
const PASSES = 2

/** The moment when slots pick, in µs since 1970. */
export interface Instant {
  now: number
}

/**
 * What is known of a lane: when its next job is due, how far its jobs have been taken, and its prefetched jobs, which no
 * slot has begun. Times are in microseconds since 1970.
 */
export class Lane {
  readonly shard: Shard
  readonly key: LaneKey
  readonly candidate: DueLane
  readonly peers: Peers
  readonly withholding = new Withholding()
  cursor = START
  /** Whether the timetable lists it as due. */
  isListed = false
  /** When the timetable checks it again. */
  looksAt = NEVER
  /** The claim under way: one at a time, so that each continues where the last one ended. */
  claim: Promise<void> | undefined
  /** How many slots wait for the claim. */
  waiting = 0
  /** Whether slots have waited for the claim under way in vain. */
  isStuck = false
  /** While prefetched jobs are being released: resolves when all of them wait again. */
  returned: Promise<void> | undefined
  /** Whether the claim under way may bring jobs that are due after some that were released. */
  isAhead = false
  readonly #portions: Portion[] = []
  #next = NEVER
  /** Whether the last claim took little time and left jobs that were due. */
  #leftMore = false
  /** When the last claim began. */
  claimedAt = 0
  /** Whose jobs claims have brought lately. */
  readonly #tenants = new Majority()
  /** The earliest time reported since the claim under way began; its answer may not know of it yet. */
  #heard = NEVER
  /** When the job was due that the last claims have passed over, and how many claims have. */
  #passed: number | undefined
  #passes = 0
  /** Until when a look that finds that job brings nothing new. */
  #passedUntil = 0
  #taken = 0
  /**
   * When all of the last portion had begun, and how long it took until the next one's turn, in ms of the monotonic clock.
   */
  #exhaustedAt = Number.NEGATIVE_INFINITY
  #waited = NEVER

  constructor(shard: Shard, lane: number) {
    const { served } = shard
    this.shard = shard
    this.key = { queueId: served.queueId, shard: shard.shard, lane }
    this.candidate = new DueLane(this)
    this.peers = served.peersOf(lane)
  }

  /** The prefetched portions, the one to be taken first in front. */
  get portions(): readonly Portion[] {
    return this.#portions
  }

  /** When the next job is due that a slot could begin, claim or wait for; Infinity if none is known. */
  get head(): number {
    const prefetched = this.#portions[0]?.performIn ?? NEVER
    return this.claim && this.waiting > 0 ? prefetched : Math.min(prefetched, this.#claimable)
  }

  /** When a claim of it is worthwhile. */
  get #claimable(): number {
    return this.withholding.soonest(this.#next)
  }

  /** Whether it has prefetched jobs, or the limits of its queue may have room. */
  get mayBeAsked(): boolean {
    return this.#portions.length > 0 || !this.shard.served.withheldLanes.isFull
  }

  /** When the next job is due, even if a slot waits for the claim of it. */
  get oldest(): number {
    return Math.min(this.#portions[0]?.performIn ?? NEVER, this.#next, this.withholding.from)
  }

  /** Whose jobs fill the lane: what a limit of theirs keeps waiting, or most of what claims have brought; null: not known. */
  get owner(): string | null {
    const withheld = this.withholding.from <= this.oldest ? this.withholding.firstTenant : null
    return withheld ?? this.#tenants.name
  }

  /**
   * Whether nothing is prefetched, and a slot that waits for its claim beside others is likely to get a job, from this claim
   * or the next one. Quick handlers take what is prefetched instead.
   */
  get isWorthWaiting(): boolean {
    return (
      this.#portions.length === 0 && this.#leftMore && !this.isStuck && !this.shard.served.prefetch.isLarge
    )
  }

  /** Whether further slots may wait for the claim. */
  get mayBeJoined(): boolean {
    return this.waiting > 0 && this.claim !== undefined && this.isWorthWaiting
  }

  /** Whether a slot that picks it, when it is due, need not wait for a claim under way. */
  get isReady(): boolean {
    return this.#portions.length > 0 || this.claim === undefined
  }

  /**
   * Whether at most half of what the last claim brought is left, and more is due. False if many lanes take turns: the next
   * portion would be released before its turn came.
   */
  isLow(now: number): boolean {
    if (this.#waited > LONGEST_WAIT_AHEAD) return false
    const left = this.#portions.reduce((sum, portion) => sum + portion.size, 0)
    const isFull = this.shard.served.withheldLanes.isFull
    return this.claim === undefined && !isFull && this.#claimable <= now && 2 * left <= this.#taken
  }

  /**
   * A job may be due at `performIn`. If the cursor has passed that time, it is moved back before it. Returns whether the
   * time is earlier than the one known.
   */
  notice(performIn: number): boolean {
    if (this.withholding.notice(performIn)) {
      this.shard.served.withheldLanes.open()
      return true
    }
    this.#heard = Math.min(this.#heard, performIn)
    if (!this.withholding.isEmpty && this.#hasPassed(performIn)) return this.#rewind(performIn)
    const earlier = performIn < this.#next
    this.#next = Math.min(this.#next, performIn)
    if (this.#hasPassed(performIn)) this.#rewind(performIn)
    return earlier
  }

  /**
   * A look has found a job that no one has claimed. Claims that have just passed it over would do so again; the wait for
   * its row will bring it. Returns whether it is news.
   */
  sight(performIn: number, now: number): boolean {
    if (performIn === this.#passed && now < this.#passedUntil) return false
    return !this.withholding.knows(performIn) && this.notice(performIn)
  }

  /** Takes the time of the first job that a full look has found. Returns whether it is news: not if limits keep it waiting. */
  find(performIn: number): boolean {
    if (this.withholding.knows(performIn)) return false
    if (performIn < this.withholding.from) return this.notice(performIn)
    // The first that waited is gone, and what was known of its limit may be old.
    this.withholding.free()
    this.shard.served.withheldLanes.open()
    return true
  }

  /** What a look has to sift next for jobs that were committed late, since a full look finds only the first that waits. */
  region(steps: number): Region | undefined {
    return this.withholding.region(this.cursor, steps)
  }

  /** A look has sifted the region up to `to`, or to its end, and found these jobs. */
  sifted(found: readonly WaitingJob[], to: Cursor | undefined): void {
    this.withholding.sifted(to)
    for (const job of found) this.withholding.visit(job)
  }

  /** What the claim under way is told of jobs that limits have kept waiting. */
  get spots(): Spots {
    return this.withholding.spots
  }

  /** Where a look starts: `span` µs before the cursor, since a transaction may commit its pushes later. */
  before(span: number): Cursor {
    const { after } = this.cursor
    // Before it lies what limits keep waiting.
    if (!this.withholding.isEmpty) return this.cursor
    return after === null ? START : { after: after - span, afterId: '' }
  }

  /** How many µs too late for the cursor a job comes; 0 if the cursor is still before it. */
  latenessOf(performIn: number): number {
    return this.cursor.after === null || !this.withholding.isEmpty
      ? 0
      : Math.max(0, this.cursor.after - performIn)
  }

  /** How many jobs a claim may bring: twice as many as the last one, and one for what came meanwhile. */
  get likely(): number {
    return 2 * this.#taken + 1
  }

  claimBegins(now: number): void {
    this.claimedAt = now
    this.#heard = NEVER
    this.isAhead = false
    this.isStuck = false
    this.shard.served.withheldLanes.asked()
    this.cursor = this.withholding.begin({ cursor: this.cursor, next: this.#next }, now)
  }

  claimEnded(claim: Claim, now: number): void {
    const { rounds, head, passed, waits } = claim
    const last = rounds.at(-1)
    this.#taken = rounds.length
    if (last) this.cursor = { after: last.performIn, afterId: last.id }
    for (const { tenant } of rounds) this.#tenants.add(tenant)
    this.#next = Math.min(head ?? NEVER, this.#heard)
    const place = { cursor: this.cursor, next: this.#next }
    const { cursor, next } = this.withholding.end(claim, place, this.shard.served, now)
    this.cursor = cursor
    const isLate = this.#hasPassed(this.#heard)
    this.#next = Math.min(
      next,
      isLate && !this.withholding.isEmpty ? NEVER : this.#heard,
      passed ? head! : NEVER,
    )
    this.shard.served.withheldLanes.see(this)
    // A claim takes a dead process's job alone, and `head` covers only jobs that are not claimed: there may be more.
    if (last?.rescued) this.#next = Math.min(this.#next, last.performIn)
    if (isLate) this.#rewind(this.#heard)
    const blocked = !last && (!waits || passed) && head !== null && head <= this.claimedAt - BARELY_DUE
    this.#countPasses(passed || blocked ? head! : undefined, now)
    // Due for certain, but a producer's open transaction holds the row. Try again, ever more rarely.
    if (blocked) this.#next = Math.min(this.#heard, now + this.#blockedPause)
    const wasQuick = now - this.claimedAt < LONGEST_JOINED * 1000
    this.#leftMore = wasQuick && last !== undefined && !this.withholding.isOfQueue && this.#claimable <= now
  }

  /** Nothing can be claimed before `until`. */
  claimFailed(until: number): void {
    this.#next = Math.max(Math.min(this.#next, this.#heard), until)
    this.#leftMore = false
    this.withholding.failed(until)
    this.shard.served.withheldLanes.see(this)
    this.shard.served.withheldLanes.open()
  }

  /** When the job was due that we should wait for: claims have passed it over again and again, since its row was locked. */
  get overdue(): number | undefined {
    return this.#passes >= PASSES ? this.#passed : undefined
  }

  /** Adds what a claim has brought after what is already prefetched. */
  bring(portion: Portion): void {
    this.#portions.push(portion)
    this.#tellQueue()
  }

  /** Adds what was waited for by itself, which was due before everything already prefetched. */
  bringFirst(portion: Portion): void {
    this.#portions.unshift(portion)
    this.#tellQueue()
  }

  /** Takes the next batch of a prefetched portion. */
  take(portion: Portion, batchSize: number): readonly Round[] {
    if (!portion.isBegun) this.#waited = performance.now() - this.#exhaustedAt
    const taken = portion.take(batchSize)
    if (!portion.isEmpty) return taken
    this.drop(portion)
    this.#exhaustedAt = performance.now()
    return taken
  }

  /** A prefetched portion, and those that are due after it. */
  portionsFrom(portion: Portion): readonly Portion[] {
    return this.#portions.slice(this.#portions.indexOf(portion))
  }

  /** Jobs are being released. Nothing is claimed until they wait again, since it would be due after them. */
  goesBack(returned: Promise<void>): void {
    const all = Promise.all([this.returned, returned]).then(() => {
      if (this.returned === all) this.returned = undefined
    })
    this.returned = all
    this.isAhead = true
  }

  /**
   * Resolves when no claim is under way and nothing is being released. If a row is locked, releasing it was at least tried.
   */
  async waitsAgain(): Promise<void> {
    while (this.claim || this.returned) await (this.claim ?? this.returned)
  }

  /** Removes a portion whose jobs have all begun or been released. */
  drop(portion: Portion): void {
    const place = this.#portions.indexOf(portion)
    if (place >= 0) this.#portions.splice(place, 1)
    this.#tellQueue()
  }

  #tellQueue(): void {
    const { prefetched } = this.shard.served
    if (this.#portions.length > 0) prefetched.add(this)
    else prefetched.delete(this)
  }

  /**
   * The first time, the cursor moves back for the job. After that it may not: a row that stays locked would keep it there.
   */
  #countPasses(passed: number | undefined, now: number): void {
    this.#passes = passed === this.#passed ? this.#passes + 1 : 1
    this.#passed = passed
    if (passed === undefined) return
    if (this.#passes < PASSES) this.#rewind(passed)
    else this.#passedUntil = now + this.#blockedPause
  }

  /** µs until a job that could not be claimed is tried again. The pauses start over for the next job. */
  get #blockedPause(): number {
    return Math.min(2 ** this.#passes, MAX_BLOCKED_PAUSE) * 1000
  }

  #hasPassed(performIn: number): boolean {
    return this.cursor.after !== null && performIn <= this.cursor.after
  }

  /** The cursor goes back for a job, but not through what limits keep waiting. Returns whether that is news. */
  #rewind(performIn: number): boolean {
    if (!this.withholding.isEmpty) return this.withholding.visit({ performIn, id: '' })
    this.cursor = before(performIn)
    return true
  }
}
