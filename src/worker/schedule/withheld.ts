import type { Claim, Cursor } from '../../store/claim.ts'
import {
  isTold,
  type Limiting,
  NO_SPOTS,
  type Spots,
  type WaitingJob,
  type Waits,
} from '../../store/limits.ts'
import { KnownJobs } from './known-jobs.ts'
import { LONGEST_PAUSE, pauseAfter } from './pauses.ts'
import { before, first, inOrder, isBefore, isPast, NEVER, START } from './places.ts'
import { type HeldTenant, type Region, SiftedRegion } from './region.ts'
import type { ServedQueue } from './served-queue.ts'
import { fromOf, toldOf, triedOf, type Withheld } from './withheld-limit.ts'

/** ms of a pause for each further lane that waits in the same queue, so that many shards don't ask all the time. */
const PAUSE_PER_LANE = 2
/** µs by which a claim has to be early to prove that a limit has changed: our clock is not quite the server's. */
const EARLY = 100_000
/** Tenants that are kept in mind for one lane. What further ones have waiting is found when all is sifted. */
const MOST_TENANTS = 1_000
/** Jobs that are kept in mind of one lane, and of one tenant: at most, and if there are many tenants. */
const [MOST_KNOWN, MOST_OF_ONE, LEAST_OF_ONE] = [5_000, 500, 5]
/** Jobs that were passed unseen, and wait for a visit. Others are found when all is sifted again. */
const MOST_VISITS = 100
/** Where a lane's next claim starts, and when the next job is due that is known behind that. */
interface Place {
  readonly cursor: Cursor
  readonly next: number
}

/**
 * What limits keep waiting in one lane. Claims of it pass over such jobs, and the lane's cursor with them, so that others can go.
 * Which jobs these are is remembered. When there may be room for a tenant, a claim is told its first ones, takes those that may
 * go by their keys, and then goes on behind the cursor. Only where they are too many to remember, it goes back behind those it knew, once
 * they are through.
 *
 * All this is memory: a process that has lost it, or gets a shard, begins with the first job of the lane.
 *
 * Between the first of what waits and the cursor, others may be committed late. No look that stops at the first job finds them,
 * so the full look sifts this region in pieces (see sift), from where it stopped, for jobs that are not among those remembered. What it
 * finds is visited, and so is what a wake-up tells of: the next claim looks there. So nothing is forgotten: what lies before the first that
 * waits is the first job of the full look.
 */
export class Withholding {
  /** By tenant; null: of the queue's own limits. */
  readonly #held = new Map<string | null, Withheld>()
  #visits: WaitingJob[] = []
  /** Of the claim under way: whose limits it tries, where the lane was before it, where it has started, what it was told. */
  #tried = new Set<string | null>()
  #beyond: Place | undefined
  #start = START
  #spots = NO_SPOTS
  #begunAt = 0
  #tries = 0
  readonly #region: SiftedRegion
  readonly #mostKnown: number
  #unmet: readonly (string | null)[] = []

  /** `mostKnown`: jobs of one tenant to keep in mind. `step`: jobs that a look sifts in a step, about. */
  constructor({ mostKnown = MOST_OF_ONE, step }: { mostKnown?: number; step?: number } = {}) {
    this.#mostKnown = mostKnown
    this.#region = new SiftedRegion(step)
  }

  get isEmpty(): boolean {
    return this.#held.size === 0
  }

  /** When the first of it was due; Infinity if there is nothing. */
  get from(): number {
    return this.#least(fromOf)
  }

  /** Whose limit keeps the first of it waiting; null: the queue's own, or there is nothing. */
  get firstTenant(): string | null {
    for (const [tenant, one] of this.#held) if (fromOf(one) === this.from) return tenant
    return null
  }

  /** The limits that the last claim has met no more, though they should have lasted. */
  get unmet(): readonly (string | null)[] {
    return this.#unmet
  }

  /** What the claim under way is told. */
  get spots(): Spots {
    return this.#spots
  }

  /** What a look sifts next in so many steps, where the lane's cursor is at `cursor`. */
  region(cursor: Cursor, steps: number): Region | undefined {
    const held = new Map<string, HeldTenant>()
    for (const [tenant, { known }] of this.#held)
      if (tenant !== null) held.set(tenant, { start: known.start!, jobs: known.jobs, rest: known.rest })
    return this.#region.next(held, this.#beyond?.cursor ?? cursor, steps)
  }

  /** A look has sifted the region up to `to`, or to its end. */
  sifted(to: Cursor | undefined): void {
    this.#region.sifted(to)
  }

  /** There may be a job that the lane has passed, due at that time, with this id or one behind it. Returns whether that is news. */
  visit(job: WaitingJob): boolean {
    if (this.#visits.length >= MOST_VISITS) return false
    if (this.#visits.some((one) => inOrder(one, job) === 0)) return false
    this.#visits.push(job)
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

  /** Whether the queue's own limits keep something waiting. */
  get isOfQueue(): boolean {
    return this.#held.has(null)
  }

  /** Whether a round of one of these tenants, or of any, may leave a place for what limits of tenants keep waiting here. */
  waitsFor(tenants: ReadonlySet<string | null> | undefined): boolean {
    for (const [tenant, { until }] of this.#held)
      if (tenant !== null && until === null && (tenants?.has(tenant) ?? true)) return true
    return false
  }

  /** What these limits keep waiting, or all, may be tried at once. */
  free(tenants?: ReadonlySet<string | null>): void {
    for (const [tenant, one] of this.#held) if (tenants?.has(tenant) ?? true) one.at = 0
  }

  /**
   * Someone names the time of a job that is kept waiting: another process has left a place for it. Returns whether it is that;
   * then it may be tried at once.
   */
  notice(performIn: number): boolean {
    const named = [...this.#held].filter(([, one]) => fromOf(one) === performIn)
    for (const [, one] of named) one.at = 0
    return named.length > 0
  }

  /** Whether a look has found what is known to be kept waiting: the first of a tenant, or of the queue. */
  knows(performIn: number): boolean {
    for (const one of this.#held.values()) if (fromOf(one) === performIn) return true
    return false
  }

  /** A claim begins. Returns where: further back than `place` only if it tries what could not be remembered. */
  begin(place: Place, now: number): Cursor {
    const tried = triedOf(this.#held, now)
    this.#begunAt = now
    this.#tried = new Set(tried.map(([tenant]) => tenant))
    if (tried.length > 0) this.#tries += 1
    const rests = tried.flatMap(([, { known }]) =>
      known.jobs.length === 0 && known.rest ? [known.rest] : [],
    )
    this.#start = rests.reduce(first, place.cursor)
    const upto = isBefore(this.#start, place.cursor) ? this.#region.upto(this.#start) : undefined
    this.#spots = { known: toldOf(tried), visits: this.#visits.toSorted(inOrder), upto }
    this.#beyond = place
    return this.#start
  }

  /** The claim has failed. Nothing can be claimed before `until`. */
  failed(until: number): void {
    for (const tenant of this.#tried) this.#put(tenant, until)
    this.#forget()
  }

  /** The claim has ended, and would go on at `place`. Returns where it does, behind what limits keep waiting. */
  end(
    claim: Pick<Claim, 'waits' | 'rounds'>,
    place: Place,
    { withheldLanes }: ServedQueue,
    now: number,
  ): Place {
    const took = claim.rounds.length > 0
    if (took) this.#tries = 0
    const longest = Math.max(LONGEST_PAUSE, PAUSE_PER_LANE * withheldLanes.size)
    const pause = withheldLanes.hasFreed(this.#begunAt) ? 0 : pauseAfter(this.#tries, longest)
    const at = now + pause * 1_000
    const times = { at, now, latest: now + withheldLanes.trust * 1_000 }
    const next = this.#isIgnored(claim) ? this.#goBack(place) : this.#goOn(claim, place, times)
    this.#forget()
    return next
  }

  /** The claim was told what waits, and its queue has no limits any more, or is paused. */
  #isIgnored({ waits }: Pick<Claim, 'waits'>): boolean {
    return !waits && isTold(this.#spots)
  }

  /** All that was passed is read anew, at the latest when a look finds the first of it. */
  #goBack({ next }: Place): Place {
    const starts = [...this.#held.values()].flatMap(({ known }) => known.start ?? [])
    const visits = this.#visits.map(({ performIn }) => before(performIn))
    const cursor = [...starts, ...visits].reduce(first, this.#start)
    this.#held.clear()
    this.#visits = []
    return { cursor, next: next === NEVER ? NEVER : Math.min(next, cursor.after ?? 0) }
  }

  #goOn(claim: Pick<Claim, 'waits' | 'rounds'>, place: Place, times: Times): Place {
    const { waits } = claim
    const beyond = this.#beyond!
    const end = waits && !waits.full ? { after: waits.to, afterId: waits.toId } : place.cursor
    const isAlone = this.#spots.upto === undefined && isPast(place.next, beyond.cursor)
    const isThrough = !isBefore(end, beyond.cursor) || isAlone
    const early = this.#early(times.now)
    if (!waits?.full) for (const { known } of this.#held.values()) known.read(this.#start, end, isThrough)
    const dropped = this.#drop(claim)
    this.#note(waits, times)
    const met = new Set(waits?.limits.map(({ tenant }) => tenant))
    for (const tenant of this.#tried) if (!met.has(tenant)) this.#settle(tenant, claim, dropped, times)
    for (const [tenant, { known }] of this.#held)
      if (tenant !== null && known.isEmpty) this.#held.delete(tenant)
    if (!this.isEmpty && !waits?.full)
      this.#region.note(end, claim.rounds.length + (waits?.jobs?.length ?? 0))
    const isUnmet = (tenant: string | null) =>
      !met.has(tenant) && (dropped.has(tenant) || !this.#held.has(tenant))
    this.#unmet = waits?.full ? [] : early.filter(isUnmet)
    if (!isBefore(this.#start, beyond.cursor))
      return waits?.full ? furthest(place, beyond) : { ...place, cursor: end }
    if (waits?.full || !isThrough) return furthest({ ...place, cursor: end }, beyond)
    return {
      cursor: furthest({ ...place, cursor: end }, beyond).cursor,
      next: Math.min(beyond.next, place.next),
    }
  }

  /** Those that were tried though they should have lasted. */
  #early(now: number): (string | null)[] {
    return [...this.#tried].filter((tenant) => {
      const until = this.#held.get(tenant)?.until ?? null
      return until !== null && until > now + EARLY
    })
  }

  /** Forgets what has been taken, what waits no more, and what was visited. Returns the tenants of what was known of it. */
  #drop({ waits, rounds }: Pick<Claim, 'waits' | 'rounds'>): ReadonlySet<string | null> {
    const ids = new Set([...rounds.map(({ id }) => id), ...(waits?.gone ?? [])])
    const dropped = new Set<string | null>()
    for (const [tenant, { known }] of this.#held) if (known.drop(ids)) dropped.add(tenant)
    const done = new Set(this.#spots.visits.slice(0, waits?.visited ?? 0))
    this.#visits = this.#visits.filter((one) => !done.has(one))
    return dropped
  }

  /** A limit was tried, and the claim has not met it. What is left of its jobs waits only for the next claim, unless a row is locked. */
  #settle(
    tenant: string | null,
    { waits, rounds }: Pick<Claim, 'waits' | 'rounds'>,
    dropped: ReadonlySet<string | null>,
    { at, now }: Times,
  ): void {
    if (tenant === null && !waits?.full) this.#held.delete(null)
    else if (waits?.full) this.#put(tenant, at)
    else this.#put(tenant, rounds.length > 0 || dropped.has(tenant) || !this.#isTold(tenant) ? now : at, null)
  }

  #isTold(tenant: string | null): boolean {
    return this.#spots.known.some((one) => one.tenant === tenant)
  }

  /** What is to be tried at an unknown time is tried at `at`, and everything at `latest`. */
  #note(waits: Waits | undefined, times: Times): void {
    if (!waits) return
    const { full, limits, jobs } = waits
    // Another session was counting.
    if (full && limits.length === 0)
      this.#held.set(null, { from: NEVER, at: times.at, until: null, known: new KnownJobs() })
    const passed = limits.map((): WaitingJob[] => [])
    for (const [limit, performIn, id] of jobs ?? []) passed[limit]!.push({ performIn, id })
    for (const [index, limit] of limits.entries()) this.#noteLimit(limit, passed[index]!, times)
  }

  #noteLimit(
    { tenant, from, after, afterId, until }: Limiting,
    passed: WaitingJob[],
    { at, latest }: Times,
  ): void {
    const known = this.#held.get(tenant)
    if (!known && tenant !== null && this.#held.size >= MOST_TENANTS) return
    const one = known ?? { from, at, until, known: new KnownJobs() }
    this.#held.set(tenant, one)
    one.from = Math.min(one.from, from)
    if (!known || this.#tried.has(tenant)) {
      // When the queue has room is known of all its lanes (see WithheldLanes).
      one.at = tenant === null ? 0 : until === null ? at : Math.min(until, latest)
      one.until = until
    }
    if (tenant === null) one.from = from
    else one.known.learn(passed, this.#mostOfOne)
    if (tenant !== null && one.known.isEmpty) one.known.miss({ after, afterId })
  }

  get #mostOfOne(): number {
    return Math.min(this.#mostKnown, Math.max(LEAST_OF_ONE, Math.floor(MOST_KNOWN / this.#held.size)))
  }

  #put(tenant: string | null, at: number, until?: null): void {
    const one = this.#held.get(tenant)
    if (!one) return
    one.at = at
    if (until === null) one.until = null
  }

  /** The claim is over. */
  #forget(): void {
    this.#beyond = undefined
    this.#spots = NO_SPOTS
    this.#tried = new Set()
  }

  #least(value: (one: Withheld) => number): number {
    let least = NEVER
    for (const one of this.#held.values()) least = Math.min(least, value(one))
    return least
  }
}

/** In microseconds since 1970: when a try is worthwhile again, this moment, and when everything is tried again. */
interface Times {
  readonly at: number
  readonly now: number
  readonly latest: number
}

function furthest(place: Place, beyond: Place): Place {
  return isBefore(place.cursor, beyond.cursor) ? beyond : place
}
