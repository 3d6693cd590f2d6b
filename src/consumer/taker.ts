import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { settlesWithin } from '../promises.ts'
import type { Claim, ReadPayload, Round } from '../store/claim.ts'
import { claimLeased, LEASED, noteCut } from '../store/leases.ts'
import { sortByExpiry } from '../store/left-out.ts'
import { loadPayloads } from '../store/load.ts'
import { Bell } from '../worker/lifecycle/bell.ts'
import { Loop, type Service } from '../worker/lifecycle/service.ts'
import { jobOf } from '../worker/performing/job-in-work.ts'
import type { Lane } from '../worker/schedule/lane.ts'
import type { ServerClock } from '../worker/schedule/server-clock.ts'
import type { Timetable } from '../worker/schedule/timetable.ts'
import type { ConsumedQueue } from './consumed-queue.ts'
import { noteLeftOut } from './left-out.ts'
import type { ClaimedJob } from './options.ts'
import type { Request } from './request.ts'
import type { Requests } from './requests.ts'
import type { Share } from './shares.ts'

/** Jobs that are wanted for a second claim of a queue to begin while one is under way. */
const LEAST_BESIDE = 100
/** ms that jobs are awaited that go back to their queue: only a producer's open transaction holds them up so long. */
const LONGEST_RETURN = 100
/** ms: the shortest lease while a payload is loaded, and when it is extended again. */
const [LOADING_LEASE, LOADING_EXTENSION] = [2_000, 1_000]

export interface TakerOptions {
  readonly index: number
  readonly database: Database
  readonly timetable: Timetable
  readonly requests: Requests
  readonly clock: ServerClock
  readonly logger: Logger
  readonly triesHeader: string | undefined
  /** ms until a lane whose claim failed is tried again. */
  readonly poll: number
  /** Default: JavaScript's values. */
  readonly read: ReadPayload | undefined
  /** Looks for due jobs of a queue. Looks that are asked for at once are one call. */
  look(queue: ConsumedQueue): Promise<unknown>
  /** Nothing is due that anyone waits for. */
  onIdle(): void
  /** Nobody gets these rounds. Resolves when they wait again. */
  release(queue: ConsumedQueue, rounds: readonly Round[]): Promise<unknown>
  /** Lets the lease of a round end no earlier than `lease` ms from now. */
  extend(queue: ConsumedQueue, round: Round, lease: number): Promise<unknown>
  /** Nothing is left of rounds that were claimed. */
  expire(queue: ConsumedQueue, rounds: readonly Round[]): void
  /** Leases of so many ms have begun. */
  onLeased(lease: number): void
}

/** What one call has brought. */
interface Yield {
  /** In the order in which they were due. */
  readonly rounds: readonly Round[]
  /** When it was sent, in ms of the monotonic clock. */
  readonly sentAt: number
}

/** What one call claims, and for whom. */
interface Errand {
  readonly queue: ConsumedQueue
  readonly lease: number
  readonly requests: readonly Request[]
  readonly shares: readonly Share[]
}

/** Claims jobs for requests, for several at once where they want the same, and hands them out. */
export class Taker implements Service {
  readonly #options: TakerOptions
  readonly #bell = new Bell()
  readonly #loop = new Loop(() => this.#pass(), this.#bell)

  constructor(options: TakerOptions) {
    this.#options = options
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #pass(): Promise<void> {
    const { index, timetable, onIdle } = this.#options
    const errand = this.#next()
    if (errand) return this.#run(errand)
    onIdle()
    await timetable.sleep(index, this.#bell)
  }

  /** For the request that has waited longest, of those for whom something is due, and for all that can join it. */
  #next(): Errand | undefined {
    const due = this.#dueLanes()
    if (due.size === 0) return undefined
    for (const request of this.#options.requests.all) {
      const place = request.isAsking ? -1 : placeIn(due, request)
      if (place > request.looked) void this.#lookBefore(place, request)
      else if (place >= 0) {
        const queue = request.queues[place]!
        // Without a lane, a claim is under way that may leave something: what comes after the queue waits for that.
        if (due.get(queue)!.length > 0 && this.#isWorthwhile(queue, request.lease))
          return this.#errandFor(queue, request.lease, due)
      }
    }
    return undefined
  }

  /** Beside a claim of a queue, another one costs the server more than it saves those who want little: they go together next. */
  #isWorthwhile(queue: ConsumedQueue, lease: number): boolean {
    if (!queue.isAsked) return true
    let wanted = 0
    for (const { left } of this.#options.requests.for(queue, lease)) {
      wanted += left
      if (wanted >= LEAST_BESIDE) return true
    }
    return false
  }

  #errandFor(queue: ConsumedQueue, lease: number, due: ReadonlyMap<ConsumedQueue, Lane[]>): Errand {
    const requests: Request[] = []
    let wanted = 0
    for (const request of this.#options.requests.for(queue, lease)) {
      // Jobs of a queue that it names before come first.
      const place = placeIn(due, request)
      if (request.queues[place] !== queue || place > request.looked) continue
      requests.push(request)
      wanted += request.left
      if (wanted >= queue.mostClaimed) break
    }
    const shares = queue.shares.of(due.get(queue)!, Math.min(wanted, queue.mostClaimed))
    return { queue, lease, requests, shares }
  }

  /** In the queues before, something may be due that nobody here has heard of. */
  async #lookBefore(place: number, request: Request): Promise<void> {
    const { look, requests, timetable } = this.#options
    request.isAsking = true
    try {
      await Promise.all(request.queues.slice(0, place).map(look))
      request.looked = place
    } catch (error) {
      requests.remove(request)
      request.fail(error)
    }
    request.isAsking = false
    requests.answer()
    timetable.wakeAll()
  }

  /** By queue, those that have waited longest in front, without those of which a claim is under way. */
  #dueLanes(): Map<ConsumedQueue, Lane[]> {
    const due = new Map<ConsumedQueue, Lane[]>()
    for (const { of: lane } of this.#options.timetable.due(this.#options.index)) {
      const queue = lane.shard.served as ConsumedQueue
      if (queue.waiting === 0) continue
      const lanes = due.get(queue) ?? []
      if (!lane.claim) lanes.push(lane)
      due.set(queue, lanes)
    }
    for (const lanes of due.values()) lanes.sort((a, b) => a.oldest - b.oldest)
    return due
  }

  async #run(errand: Errand): Promise<void> {
    const { timetable, onLeased } = this.#options
    const { requests, shares } = errand
    for (const request of requests) request.isAsking = true
    const claiming = this.#claim(errand)
    for (const { lane } of shares) {
      lane.claim = claiming.then(() => {})
      timetable.file(lane)
    }
    const claimed = await claiming
    for (const { lane } of shares) {
      lane.claim = undefined
      timetable.file(lane)
    }
    if (claimed.rounds.length > 0) onLeased(errand.lease)
    await this.#handOut(errand, claimed)
    for (const request of requests) request.isAsking = false
    this.#options.requests.answer()
    timetable.wakeAll()
  }

  async #claim({ queue, lease, shares, requests }: Errand): Promise<Yield> {
    const { database, clock, triesHeader, read } = this.#options
    const { maxPayloads, maxBytes, maxRetryCount } = queue.queue
    for (const { lane } of shares) lane.claimBegins(clock.now())
    const sentAt = performance.now()
    try {
      const wishes = shares.map(({ lane, count }) => {
        const { key, cursor, spots } = lane
        return { key, cursor, count, spots, maxPayloads, maxBytes, maxRetryCount: maxRetryCount as number }
      })
      const claims = await claimLeased(database, lease, wishes, triesHeader, read)
      for (const [index, share] of shares.entries()) this.#claimed(queue, share, claims[index]!)
      const rounds = claims.flatMap((claim) => claim.rounds).sort((a, b) => a.performIn - b.performIn)
      return { rounds: await this.#keepFirst(queue, rounds), sentAt }
    } catch (error) {
      this.#claimFailed(queue, shares, error)
      for (const request of requests) {
        this.#options.requests.remove(request)
        request.fail(error)
      }
      return { rounds: [], sentAt }
    }
  }

  /**
   * The rounds that came with their payloads, up to the first that did not; or that one alone, to be loaded. To load others would
   * take time that their leases don't have, and memory without bound: so they go back, before their lanes are claimed from again.
   */
  async #keepFirst(queue: ConsumedQueue, rounds: readonly Round[]): Promise<readonly Round[]> {
    const first = rounds.findIndex(({ toLoad }) => toLoad)
    const kept = first < 0 ? rounds : rounds.slice(0, Math.max(1, first))
    queue.brought(kept)
    if (kept.length < rounds.length)
      await settlesWithin(this.#options.release(queue, rounds.slice(kept.length)), LONGEST_RETURN)
    return kept
  }

  #claimed({ shares }: ConsumedQueue, share: Share, claim: Claim): void {
    const { clock, timetable } = this.#options
    const { lane } = share
    shares.took(share, claim.rounds.length)
    lane.claimEnded(claim, clock.now())
    timetable.heed(lane, claim)
  }

  /** Jobs may have been claimed though the answer was lost: their leases end. */
  #claimFailed({ queue, shares }: ConsumedQueue, all: readonly Share[], error: unknown): void {
    const { clock, logger, poll } = this.#options
    logger.warn({ event: 'claiming', error: (error as Error).message, queue: queue.name }, 'claiming failed')
    for (const share of all) {
      shares.took(share, 0)
      share.lane.claimFailed(clock.now() + poll * 1000)
    }
  }

  /** In order, without what has expired. What comes for requests that are gone or full goes to others, or is released. */
  async #handOut({ queue, lease, requests }: Errand, { rounds, sentAt }: Yield): Promise<void> {
    const ready: Round[] = []
    for (const round of rounds) {
      const complete = await this.#complete(queue, round, lease)
      if (complete) ready.push(complete)
    }
    const { fresh, expired } = sortByExpiry(ready, this.#options.clock.now())
    if (expired.length > 0) this.#options.expire(queue, expired)
    const surplus: Round[] = []
    for (const round of fresh) {
      const taker = takerOf(requests, round) ?? takerOf(this.#options.requests.for(queue, lease), round)
      if (taker) taker.give(jobFrom(queue, round), round.size, sentAt)
      else surplus.push(round)
    }
    if (surplus.length > 0) void this.#options.release(queue, surplus)
  }

  /** With all that its claim could not bring. If that fails, or the claim is lost, its lease ends. */
  async #complete(queue: ConsumedQueue, round: Round, lease: number): Promise<Round | undefined> {
    const { database, logger } = this.#options
    if (!round.toLoad && !round.cut) return round
    try {
      const whole = round.toLoad ? await this.#load(queue, round, lease) : round
      if (whole?.cut) await noteCut(database, queue.queueId, whole)
      return whole
    } catch (error) {
      logger.warn(
        { error: (error as Error).message, queue: queue.queue.name, id: round.id },
        'loading payloads failed',
      )
      return undefined
    }
  }

  /** Its lease is extended meanwhile: a short one would end each time, and its job die without having been handed to anybody. */
  async #load(queue: ConsumedQueue, round: Round, lease: number): Promise<Round | undefined> {
    const { database, extend, read } = this.#options
    // If that fails, loading may still be quick enough.
    const keep = () => extend(queue, round, Math.max(lease, LOADING_LEASE)).catch(() => {})
    if (lease < LOADING_LEASE) await keep()
    const timer = setInterval(keep, LOADING_EXTENSION)
    try {
      return await loadPayloads(database, LEASED, queue.queueId, round, queue.queue, read)
    } finally {
      clearInterval(timer)
    }
  }
}

function takerOf(requests: Iterable<Request>, { size }: Round): Request | undefined {
  for (const request of requests) if (request.hasRoomFor(size)) return request
  return undefined
}

/** The place of its first queue in which something is due; -1 if there is none. */
function placeIn(due: ReadonlyMap<ConsumedQueue, unknown>, { queues }: Request): number {
  return queues.findIndex((queue) => due.has(queue))
}

function jobFrom({ queue }: ConsumedQueue, round: Round): ClaimedJob {
  const job = { queue: queue.name, ...jobOf(round) }
  if (round.expired > 0) noteLeftOut(job, round.expired)
  return job
}
