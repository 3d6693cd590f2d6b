import type { Claim, Cursor, Round } from '../../store/claim.ts'
import type { Waits } from '../../store/limits.ts'
import type { Lane } from './lane.ts'
import type { ServedQueue } from './served-queue.ts'

/**
 * ms between tries to claim what a number of ids keeps waiting; doubled each time. A round that ends in this process is told,
 * and so is a place that another one leaves to us. So this is for what others give back while we have not waited long.
 */
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [16, 200]
/** ms of that for each further lane that waits in the same queue, so that many shards don't ask all the time. */
const PAUSE_PER_LANE = 2
/** ms after which everything that is kept waiting is looked through once more: others may have been committed among it. */
const WALK_AGAIN = 10_000
/** Tenants that are kept in mind for one lane. What further ones have waiting is found when all is looked through. */
const MOST_TENANTS = 1_000

function pauseAfter(tries: number, longest: number): number {
  return Math.min(SHORTEST_PAUSE * 2 ** tries, longest)
}

const NEVER = Number.POSITIVE_INFINITY

/** What one limit keeps waiting in a lane. Times are in microseconds since 1970. */
interface Withheld {
  /** When the first of it was due. */
  readonly from: number
  /** Where a claim starts that takes that first. */
  readonly cursor: Cursor
  /** When it is tried again. */
  readonly at: number
  /** Whether that is because no one knows when. */
  readonly isGuess: boolean
}

/** Where a lane's next claim starts, and when the next job is due that is known behind that. */
interface Place {
  readonly cursor: Cursor
  readonly next: number
}

/**
 * What limits keep waiting in one lane. Claims of it pass over such jobs, and the lane's cursor with them, so that others
 * can go. The lane goes back to the first job of a tenant when there may be room for it, and then on from where it was: what
 * lies between may be a lot.
 */
export class Withholding {
  /** By tenant; null: of the queue's own limits. */
  readonly #held = new Map<string | null, Withheld>()
  /** Those that the claim under way tries, and where the lane was before it. */
  #tried: readonly [string | null, Withheld][] = []
  #begunAt = 0
  #beyond: Place | undefined
  #tries = 0
  #walkedAt = 0

  get isEmpty(): boolean {
    return this.#held.size === 0
  }

  /** Whether nothing of the lane can go before the limits of its queue allow more. */
  get isFull(): boolean {
    return this.#held.has(null)
  }

  /** When the first of it was due; Infinity if there is nothing. */
  get from(): number {
    return this.#least(({ from }) => from)
  }

  /** When the next claim is worthwhile. `next`: when the next job is due behind what is kept waiting. */
  soonest(next: number): number {
    return (
      this.#held.get(null)?.at ??
      Math.min(
        next,
        this.#least(({ at }) => at),
      )
    )
  }

  /** Whether a round of one of these tenants, or of the queue (null), may leave a place for what waits here. */
  waitsFor(tenants: ReadonlySet<string | null>): boolean {
    for (const [tenant, { isGuess }] of this.#held) if (isGuess && tenants.has(tenant)) return true
    return false
  }

  /** What these limits keep waiting may be tried at once. */
  free(tenants: ReadonlySet<string | null>): void {
    for (const [tenant, one] of this.#held) if (tenants.has(tenant)) this.#held.set(tenant, { ...one, at: 0 })
  }

  /**
   * Someone names the time of a job that is kept waiting: another process has left a place for it. Returns whether it is that;
   * then it may be tried at once.
   */
  notice(performIn: number): boolean {
    const named = this.#named(performIn)
    this.free(new Set(named))
    return named.length > 0
  }

  /** Whether a look has found what is known to be kept waiting. If all was looked through long ago, it may be another job. */
  knows(performIn: number): boolean {
    if (this.isEmpty) return false
    if (performance.now() - this.#walkedAt > WALK_AGAIN) {
      this.#walkedAt = performance.now()
      return false
    }
    return this.isFull || this.#named(performIn).length > 0
  }

  /** A claim begins. Returns where: further back than `place` if something that was kept waiting is tried again. */
  begin(place: Place, now: number): Cursor {
    this.#beyond = undefined
    this.#begunAt = now
    this.#tried = [...this.#held].filter(([, { at }]) => at <= now)
    for (const [tenant] of this.#tried) this.#held.delete(tenant)
    if (this.#tried.length === 0) return place.cursor
    this.#tries += 1
    const back = this.#tried.map(([, { cursor }]) => cursor).reduce(first)
    if (!isBefore(back, place.cursor)) return place.cursor
    this.#beyond = place
    return back
  }

  /** The claim has failed. Nothing can be claimed before `until`. */
  failed(until: number): void {
    for (const [tenant, one] of this.#tried) this.#held.set(tenant, { ...one, at: until })
    this.#tried = []
  }

  /**
   * The claim has ended, and would go on at `place`. Returns where it does, behind what limits keep waiting. `took`: whether it
   * has claimed something.
   */
  end(
    waits: Waits | undefined,
    place: Place,
    { withheldLanes }: ServedQueue,
    took: boolean,
    now: number,
  ): Place {
    if (took) this.#tries = 0
    const longest = Math.max(LONGEST_PAUSE, PAUSE_PER_LANE * withheldLanes.size)
    const pause = withheldLanes.hasFreed(this.#begunAt) ? 0 : pauseAfter(this.#tries, longest)
    const at = now + pause * 1_000
    if (waits) this.#note(waits, at)
    if (waits?.full) {
      this.#keepTrying(at)
      return this.#beyond ?? place
    }
    const behind = waits ? { cursor: { after: waits.to, afterId: waits.toId }, next: place.next } : place
    if (!this.#beyond || !isBefore(behind.cursor, this.#beyond.cursor)) return behind
    // Of those that were tried, the next job may lie further on.
    for (const [tenant, one] of this.#tried)
      if (!this.#held.has(tenant))
        this.#held.set(tenant, { ...one, from: behind.next, cursor: behind.cursor, at: now, isGuess: false })
    return this.#beyond
  }

  #named(performIn: number): (string | null)[] {
    return [...this.#held].flatMap(([tenant, { from }]) => (from === performIn ? [tenant] : []))
  }

  #note({ full, limits }: Waits, at: number): void {
    if (this.isEmpty && this.#tried.length === 0) this.#walkedAt = performance.now()
    // Another session was counting.
    if (full && limits.length === 0) this.#held.set(null, { from: NEVER, cursor: END, at, isGuess: true })
    for (const { tenant, from, after, afterId, until } of limits) {
      const known = this.#held.get(tenant)
      // What is known lies further back.
      if (known && known.from <= from) continue
      if (this.#held.size < MOST_TENANTS || tenant === null)
        this.#held.set(tenant, { from, cursor: { after, afterId }, at: until ?? at, isGuess: until === null })
    }
  }

  /** The queue has no room for those that were tried. */
  #keepTrying(at: number): void {
    for (const [tenant, one] of this.#tried)
      if (tenant !== null && !this.#held.has(tenant)) this.#held.set(tenant, { ...one, at })
  }

  #least(value: (one: Withheld) => number): number {
    let least = NEVER
    for (const one of this.#held.values()) least = Math.min(least, value(one))
    return least
  }
}

const END: Cursor = { after: NEVER, afterId: '' }

function isBefore(a: Cursor, b: Cursor): boolean {
  const [one, other] = [a.after ?? -NEVER, b.after ?? -NEVER]
  return one < other || (one === other && a.afterId < b.afterId)
}

function first(a: Cursor, b: Cursor): Cursor {
  return isBefore(a, b) ? a : b
}

/** The lanes of a queue in which limits keep something waiting. */
export class WithheldLanes {
  readonly #lanes = new Set<Lane>()
  #fullUntil = 0
  #tries = 0
  #freedAt = 0

  /**
   * Until when the limits of the queue itself have no room, as the last claim of any of its lanes has met them; in µs of the
   * server's clock. Then one lane is not asked after the other.
   */
  get fullUntil(): number {
    return this.#fullUntil
  }

  /** Whether rounds have ended since, whose places a claim that had begun may have missed. */
  hasFreed(since: number): boolean {
    return this.#freedAt >= since
  }

  /** A claim of the queue has ended. Returns whether the limits of the queue have no room now. */
  met({ waits, rounds }: Pick<Claim, 'waits' | 'rounds'>, claimedAt: number, now: number): boolean {
    const own = waits?.limits.find(({ tenant }) => tenant === null)
    if (!own || this.hasFreed(claimedAt)) {
      if (rounds.length > 0) this.open()
      return false
    }
    this.#tries += 1
    this.#fullUntil = own.until ?? now + pauseAfter(this.#tries, LONGEST_PAUSE) * 1_000
    return true
  }

  /** There may be room. */
  open(): void {
    this.#fullUntil = 0
    this.#tries = 0
  }

  get size(): number {
    return this.#lanes.size
  }

  see(lane: Lane): void {
    if (lane.withholding.isEmpty) this.#lanes.delete(lane)
    else this.#lanes.add(lane)
  }

  /** These rounds have ended. Returns as many lanes that wait for their places, first those with the oldest jobs. */
  free(rounds: readonly Round[], now: number): readonly Lane[] {
    this.#freedAt = now
    if (this.#lanes.size === 0) return []
    const tenants = new Set([null, ...rounds.map(({ tenant }) => tenant)])
    const waiting: Lane[] = []
    for (const lane of this.#lanes) {
      if (!lane.shard.isHeld) this.#lanes.delete(lane)
      else if (lane.withholding.waitsFor(tenants)) waiting.push(lane)
    }
    if (waiting.length > 0) this.open()
    const freed = waiting.sort((a, b) => a.withholding.from - b.withholding.from).slice(0, rounds.length)
    for (const { withholding } of freed) withholding.free(tenants)
    return freed
  }
}
