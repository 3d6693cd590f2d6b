import type { Claim, Cursor, LaneKey, Round } from '../../store/claim.ts'
import type { Portion } from './portion.ts'
import { LONGEST_PREFETCHED } from './prefetch.ts'
import type { Candidate } from './scheduler.ts'
import type { Shard } from './shard.ts'

/** ms from a portion's end to the next one's turn, above which it is not claimed ahead: the turn after may come later. */
const LONGEST_WAIT_AHEAD = LONGEST_PREFETCHED / 2

/** ms between tries to get a row that others hold. */
const MAX_BLOCKED_PAUSE = 200

const START: Cursor = { after: null, afterId: '' }

/** Claims that pass a job over, after which its row is waited for. */
const PASSES = 2

const NEVER = Number.POSITIVE_INFINITY

/** When slots pick: µs since 1970. */
export interface Instant {
  now: number
}

/** What a scheduler sees of a lane, with the lane behind it. */
export class DueLane implements Candidate {
  readonly queue: string
  readonly shard: number
  readonly lane: number
  readonly of: Lane

  constructor(of: Lane) {
    this.queue = of.shard.served.queue.name
    this.shard = of.key.shard
    this.lane = of.key.lane
    this.of = of
  }

  get lag(): number {
    return Math.max((this.of.shard.instant.now - this.of.head) / 1000, Number.MIN_VALUE)
  }

  get isClaimed(): boolean {
    return !this.of.isReady
  }

  get isBegun(): boolean {
    return this.of.hand[0]?.isBegun === true
  }
}

/**
 * What is known of a lane: when its next job is due, how far it has been taken, and what was claimed of it and no slot has
 * begun. Times are in microseconds since 1970.
 */
export class Lane {
  readonly shard: Shard
  readonly key: LaneKey
  readonly candidate: DueLane
  cursor = START
  /** Whether the timetable has it among what is due. */
  isListed = false
  /** When the timetable looks at it again. */
  looksAt = NEVER
  /** The claim under way: one at a time, so that each goes on where the last one ended. */
  claim: Promise<void> | undefined
  /** A slot waits for it. */
  isAwaited = false
  /** While something goes back: resolves when all of it waits again. */
  returned: Promise<void> | undefined
  /** The claim under way may bring what is due after something that has gone back. */
  isAhead = false
  readonly #hand: Portion[] = []
  #next = NEVER
  /** The earliest time heard of since the claim under way began: its answer may not know of it yet. */
  #heard = NEVER
  /** When the job was due that the last claims have passed over, and how many they were. */
  #passed: number | undefined
  #passes = 0
  /** Until when a look that finds that job tells nothing new. */
  #passedUntil = 0
  #taken = 0
  /** When the last portion had begun to its end, and how long the next one's turn took to come: ms of the monotonic clock. */
  #exhaustedAt = Number.NEGATIVE_INFINITY
  #waited = NEVER

  constructor(shard: Shard, lane: number) {
    const { served } = shard
    this.shard = shard
    this.key = { queueId: served.queueId, shard: shard.shard, lane }
    this.candidate = new DueLane(this)
  }

  /** What is in hand, the portion first to be taken first. */
  get hand(): readonly Portion[] {
    return this.#hand
  }

  /** When the next job is due that a slot could begin, claim or wait for; Infinity: none is known. */
  get head(): number {
    return Math.min(this.#hand[0]?.performIn ?? NEVER, this.claim && this.isAwaited ? NEVER : this.#next)
  }

  /** Where it is due, a slot need not wait for a claim of somebody else's. */
  get isReady(): boolean {
    return this.#hand.length > 0 || this.claim === undefined
  }

  /**
   * At most half is left of what the last claim has brought, and more is due. Not so where many lanes take turns: the next
   * portion would go back before its turn came.
   */
  isLow(now: number): boolean {
    if (this.#waited > LONGEST_WAIT_AHEAD) return false
    const left = this.#hand.reduce((sum, portion) => sum + portion.size, 0)
    return this.claim === undefined && this.#next <= now && 2 * left <= this.#taken
  }

  /** A job may be due at `performIn`; the cursor goes back before it where it has passed. Says if that is earlier. */
  notice(performIn: number): boolean {
    const earlier = performIn < this.#next
    this.#next = Math.min(this.#next, performIn)
    this.#heard = Math.min(this.#heard, performIn)
    if (this.cursor.after !== null && performIn <= this.cursor.after) this.#rewind(performIn)
    return earlier
  }

  /**
   * A look has found a job that nobody has claimed. Claims that have just passed it over would do so again: who waits for its
   * row will bring it. Says if it is news.
   */
  sight(performIn: number, now: number): boolean {
    if (performIn === this.#passed && now < this.#passedUntil) return false
    return this.notice(performIn)
  }

  /** Where a look starts: so many µs before the cursor, since what a transaction pushed may be committed later. */
  before(span: number): Cursor {
    const { after } = this.cursor
    return after === null ? START : { after: after - span, afterId: '' }
  }

  /** µs by which a job comes too late for the cursor; 0 where that is still before it. */
  latenessOf(performIn: number): number {
    return this.cursor.after === null ? 0 : Math.max(0, this.cursor.after - performIn)
  }

  /** How many jobs a claim may bring: twice as many as the last one, and one for what came meanwhile. */
  get likely(): number {
    return 2 * this.#taken + 1
  }

  claimBegins(): void {
    this.#heard = NEVER
    this.isAhead = false
  }

  claimEnded({ rounds, head, passed }: Claim, now: number): void {
    const last = rounds.at(-1)
    this.#taken = rounds.length
    if (last) this.cursor = { after: last.performIn, afterId: last.id }
    this.#next = Math.min(head ?? NEVER, this.#heard)
    // A claim takes one job of a dead process, alone, and `head` tells only of jobs that are not claimed: there may be more.
    if (last?.rescued) this.#next = Math.min(this.#next, last.performIn)
    if (this.#heard <= (this.cursor.after ?? Number.NEGATIVE_INFINITY)) this.#rewind(this.#heard)
    const blocked = !last && head !== null && head <= now
    this.#countPasses(passed || blocked ? head! : undefined, now)
    // Due, but not to be had: a producer's open transaction holds the row. Ask again, ever more rarely.
    if (blocked) this.#next = Math.min(this.#heard, now + this.#blockedPause)
  }

  /** Nothing is to be had before `until`. */
  claimFailed(until: number): void {
    this.#next = Math.max(Math.min(this.#next, this.#heard), until)
  }

  /** When a job was due that is to be waited for: claims have passed it over again and again, since its row was locked. */
  get overdue(): number | undefined {
    return this.#passes >= PASSES ? this.#passed : undefined
  }

  /** What a claim has brought comes after what is in hand. */
  bring(portion: Portion): void {
    this.#hand.push(portion)
    this.#tellQueue()
  }

  /** What was waited for by itself was due before all that is in hand. */
  bringFirst(portion: Portion): void {
    this.#hand.unshift(portion)
    this.#tellQueue()
  }

  /** The next batch of a portion in hand. */
  take(portion: Portion, batchSize: number): readonly Round[] {
    const now = performance.now()
    if (!portion.isBegun) this.#waited = now - this.#exhaustedAt
    const taken = portion.take(batchSize)
    if (!portion.isEmpty) return taken
    this.drop(portion)
    this.#exhaustedAt = now
    return taken
  }

  /** A portion of the hand, and those that are due after it. */
  handFrom(portion: Portion): readonly Portion[] {
    return this.#hand.slice(this.#hand.indexOf(portion))
  }

  /** Something goes back: nothing is claimed until it waits again, since that would be due after it. */
  goesBack(returned: Promise<void>): void {
    const all = Promise.all([this.returned, returned]).then(() => {
      if (this.returned === all) this.returned = undefined
    })
    this.returned = all
    this.isAhead = true
  }

  /** Resolves when no claim is under way and nothing goes back. Where a row is locked, that it goes back was tried. */
  async waitsAgain(): Promise<void> {
    while (this.claim || this.returned) await (this.claim ?? this.returned)
  }

  /** Takes out what has been begun or released. */
  drop(portion: Portion): void {
    const place = this.#hand.indexOf(portion)
    if (place >= 0) this.#hand.splice(place, 1)
    this.#tellQueue()
  }

  #tellQueue(): void {
    const { prefetched } = this.shard.served
    if (this.#hand.length > 0) prefetched.add(this)
    else prefetched.delete(this)
  }

  /** At first the cursor goes back for it. Afterwards it may not: a row that stays locked would keep it there. */
  #countPasses(passed: number | undefined, now: number): void {
    this.#passes = passed === this.#passed ? this.#passes + 1 : 1
    this.#passed = passed
    if (passed === undefined) return
    if (this.#passes < PASSES) this.#rewind(passed)
    else this.#passedUntil = now + this.#blockedPause
  }

  /** µs until a job is asked for again that could not be claimed. The pauses of the next job begin anew. */
  get #blockedPause(): number {
    return Math.min(2 ** this.#passes, MAX_BLOCKED_PAUSE) * 1000
  }

  #rewind(performIn: number): void {
    this.cursor = { after: performIn - 1, afterId: '' }
  }
}
