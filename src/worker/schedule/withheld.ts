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
/**
 * ms after which a limit is tried again at the latest, and ms of that for each lane that waits in the same queue: someone may have
 * raised or removed it.
 */
const [LONGEST_TRUST, TRUST_PER_LANE] = [5_000, 50]
/** µs by which a claim has to be early to prove that a limit has changed: our clock is not quite the server's. */
const EARLY = 100_000
/** Tenants that are kept in mind for one lane. What further ones have waiting is found when all is sifted. */
const MOST_TENANTS = 1_000
/** Places in one lane that wait for a visit. Others are found when all is sifted again. */
const MOST_VISITS = 100

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
  /** Until when it waits at least, if its limit stays the same; null: no one knows. */
  readonly until: number | null
}

/** What a look has to sift for jobs that were committed late, and what it knows there. */
export interface Region {
  readonly from: Cursor
  readonly to: Cursor
  /** By tenant, whose limits keep it waiting: where the claim starts that takes its first job. */
  readonly held: ReadonlyMap<string, Cursor>
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
 *
 * Between the first of what waits and the cursor, others may be committed late. No look that stops at the first job finds them,
 * so the full look sifts this region in pieces (see sift), from where it stopped. What it finds is visited: one claim starts
 * there, and the lane goes on from where it was. So nothing is forgotten: what lies before the first that waits is the
 * first job of the full look. What lies behind it is of a tenant that waits further ahead, which reaches it in order, or it
 * is sifted out. And visits and tries take turns.
 */
export class Withholding {
  /** By tenant; null: of the queue's own limits. */
  readonly #held = new Map<string | null, Withheld>()
  /** Those that the claim under way tries, and where the lane was before it. */
  #tried: readonly [string | null, Withheld][] = []
  #begunAt = 0
  #beyond: Place | undefined
  #tries = 0
  /** Where jobs lie that the lane has passed, and that no limit is known to keep waiting. */
  #visits: Cursor[] = []
  /** That of the claim under way, and where this claim has started. */
  #visiting: Cursor | undefined
  #start = START
  /** Whether the last claim was a visit. */
  #visited = false
  /** Up to where the region is sifted; undefined: from its beginning on. */
  #sifted: Cursor | undefined
  #unmet: readonly (string | null)[] = []

  get isEmpty(): boolean {
    return this.#held.size === 0
  }

  /** Whether nothing of the lane can go before the limits of its queue allow more. */
  get isFull(): boolean {
    return this.#held.has(null)
  }

  /** When the first of it was due; Infinity if there is nothing. */
  get from(): number {
    let least = NEVER
    for (const [, { from }] of this.#known()) least = Math.min(least, from)
    return least
  }

  /** The limits that the last claim has met no more, though they should have lasted. */
  get unmet(): readonly (string | null)[] {
    return this.#unmet
  }

  /** What a look sifts next, where the lane's cursor is at `cursor`. */
  region(cursor: Cursor): Region | undefined {
    const held = new Map<string, Cursor>()
    for (const [tenant, one] of this.#known()) if (tenant !== null) held.set(tenant, one.cursor)
    const to = this.#beyond?.cursor ?? cursor
    const from = [...held.values()].reduce(first, to)
    const rest = this.#sifted && isBefore(from, this.#sifted) ? this.#sifted : from
    if (isBefore(rest, to)) return { from: rest, to, held }
    this.#sifted = undefined
    return undefined
  }

  /** A look has sifted the region up to `to`, or to its end. */
  sifted(to: Cursor | undefined): void {
    this.#sifted = to
  }

  /** A job lies behind `cursor` that the lane has passed. Returns whether that is news. */
  visit(cursor: Cursor): boolean {
    if (this.#visits.length >= MOST_VISITS) return false
    if (this.#visits.some((one) => one.after === cursor.after && one.afterId === cursor.afterId)) return false
    this.#visits.push(cursor)
    return true
  }

  /** When the next claim is worthwhile. `next`: when the next job is due behind what is kept waiting. */
  soonest(next: number): number {
    return (
      this.#held.get(null)?.at ??
      Math.min(
        next,
        this.#visits.length > 0 ? 0 : NEVER,
        this.#least(({ at }) => at),
      )
    )
  }

  /** Whether a round of one of these tenants, or of the queue (null), may leave a place for what waits here. */
  waitsFor(tenants: ReadonlySet<string | null>): boolean {
    for (const [tenant, { until }] of this.#held) if (until === null && tenants.has(tenant)) return true
    return false
  }

  /** What these limits keep waiting, or all, may be tried at once. */
  free(tenants?: ReadonlySet<string | null>): void {
    for (const [tenant, one] of this.#held)
      if (tenants?.has(tenant) ?? true) this.#held.set(tenant, { ...one, at: 0 })
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

  /** Whether a look has found what is known to be kept waiting: the first of a tenant, or of the queue. */
  knows(performIn: number): boolean {
    for (const [, { from }] of this.#known()) if (from === performIn) return true
    return false
  }

  /** A claim begins. Returns where: further back than `place` if it visits something, or tries again what was kept waiting. */
  begin(place: Place, now: number): Cursor {
    this.#beyond = undefined
    this.#begunAt = now
    this.#start = place.cursor
    const due = [...this.#held].filter(([, { at }]) => at <= now)
    this.#visiting = this.#nextVisit(due)
    this.#tried = this.#visiting ? due.filter(([tenant]) => tenant === null) : due
    for (const [tenant] of this.#tried) this.#held.delete(tenant)
    if (this.#tried.length > 0) this.#tries += 1
    const back = this.#visiting ?? this.#tried.map(([, { cursor }]) => cursor).reduce(first, place.cursor)
    if (!isBefore(back, place.cursor)) return place.cursor
    this.#beyond = place
    this.#start = back
    return back
  }

  /** The claim has failed. Nothing can be claimed before `until`. */
  failed(until: number): void {
    for (const [tenant, one] of this.#tried) this.#held.set(tenant, { ...one, at: until })
    if (this.#visiting) this.visit(this.#visiting)
    this.#forget()
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
    if (waits) this.#note(waits, at, now + withheldLanes.trust * 1_000)
    const next = this.#goOn(waits, place, took, at, now)
    this.#forget()
    return next
  }

  #goOn(waits: Waits | undefined, place: Place, took: boolean, at: number, now: number): Place {
    const beyond = this.#beyond
    this.#unmet = []
    if (waits?.full) {
      this.#keepTrying(at)
      if (this.#visiting) this.visit(this.#visiting)
      return beyond ?? place
    }
    const behind = waits ? { cursor: { after: waits.to, afterId: waits.toId }, next: place.next } : place
    const isThrough = !beyond || !isBefore(behind.cursor, beyond.cursor) || isPast(behind.next, beyond.cursor)
    this.#unmet = this.#unmetBy(behind.cursor, isThrough, now)
    this.#visits = this.#visits.filter((one) => isBefore(one, this.#start) || !isBefore(one, behind.cursor))
    this.#visited = this.#visiting !== undefined
    if (!beyond || !isBefore(behind.cursor, beyond.cursor)) return behind
    if (isThrough) return { cursor: beyond.cursor, next: Math.min(beyond.next, behind.next) }
    if (!this.#visiting) this.#tryFurther(behind, now)
    else if (took) this.visit(behind.cursor)
    return beyond
  }

  /** Of those that were tried, the next job may lie further on. */
  #tryFurther({ cursor, next }: Place, now: number): void {
    for (const [tenant, one] of this.#tried)
      if (!this.#held.has(tenant))
        this.#held.set(tenant, { ...one, from: next, cursor, at: now, until: null })
  }

  /** Those that were tried early, in a claim that has come by, and that are no longer kept waiting. */
  #unmetBy(behind: Cursor, isThrough: boolean, now: number): (string | null)[] {
    return this.#tried.flatMap(([tenant, { cursor, until }]) => {
      const isEarly = until !== null && until > now + EARLY
      return isEarly && !this.#held.has(tenant) && (isThrough || isBefore(cursor, behind)) ? [tenant] : []
    })
  }

  /** The first place to visit; undefined if it's the turn of what is tried again, or if the queue has no room. */
  #nextVisit(due: readonly [string | null, Withheld][]): Cursor | undefined {
    if (this.#visits.length === 0) return undefined
    if (this.isFull && !due.some(([tenant]) => tenant === null)) return undefined
    if (this.#visited && due.some(([tenant]) => tenant !== null)) {
      this.#visited = false
      return undefined
    }
    const next = this.#visits.reduce(first)
    this.#visits = this.#visits.filter((one) => one !== next)
    return next
  }

  /** The claim is over. */
  #forget(): void {
    this.#beyond = undefined
    this.#visiting = undefined
    this.#tried = []
  }

  /** Also what the claim under way tries. */
  *#known(): Iterable<readonly [string | null, Withheld]> {
    yield* this.#held
    for (const one of this.#tried) if (!this.#held.has(one[0])) yield one
  }

  #named(performIn: number): (string | null)[] {
    return [...this.#held].flatMap(([tenant, { from }]) => (from === performIn ? [tenant] : []))
  }

  /** What is to be tried at an unknown time is tried at `at`, and everything at `latest`. */
  #note({ full, limits }: Waits, at: number, latest: number): void {
    // Another session was counting.
    if (full && limits.length === 0) this.#held.set(null, { from: NEVER, cursor: END, at, until: null })
    for (const { tenant, from, after, afterId, until } of limits) {
      const known = this.#held.get(tenant)
      // What is known lies further back.
      if (known && known.from <= from) continue
      const one = {
        from,
        cursor: { after, afterId },
        at: until === null ? at : Math.min(until, latest),
        until,
      }
      if (this.#held.size < MOST_TENANTS || tenant === null) this.#held.set(tenant, one)
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
const START: Cursor = { after: null, afterId: '' }

function isPast(performIn: number, { after }: Cursor): boolean {
  return after !== null && performIn > after
}

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
    const until = own.until ?? now + pauseAfter(this.#tries, LONGEST_PAUSE) * 1_000
    this.#fullUntil = Math.min(until, now + this.trust * 1_000)
    return true
  }

  /** There may be room. */
  open(): void {
    this.#fullUntil = 0
    this.#tries = 0
  }

  /** Someone has changed the limits. Returns the lanes that may have something to claim now. */
  reopen(): readonly Lane[] {
    this.open()
    const lanes = this.held
    for (const { withholding } of lanes) withholding.free()
    return lanes
  }

  get size(): number {
    return this.#lanes.size
  }

  get held(): Lane[] {
    return [...this.#lanes].filter(({ shard }) => shard.isHeld)
  }

  /** ms for which the queue's limits are taken to be as they were. */
  get trust(): number {
    return Math.max(LONGEST_TRUST, TRUST_PER_LANE * this.#lanes.size)
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
