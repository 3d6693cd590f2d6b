import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
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

/** Most jobs to claim in one call: with so many, the fixed cost of a call is small for each. */
const MOST_CLAIMED = 400

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
  /** Nothing is due that anyone waits for. */
  onIdle(): void
  /** Rounds were claimed that nobody waits for any more. */
  release(queue: ConsumedQueue, rounds: readonly Round[]): void
  /** Nothing is left of rounds that were claimed. */
  expire(queue: ConsumedQueue, rounds: readonly Round[]): void
  /** Leases of so many ms have begun. */
  onLeased(lease: number): void
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
      const queue = request.isAsking ? undefined : request.queues.find((one) => due.has(one))
      if (queue) return this.#errandFor(queue, request.lease, due)
    }
    return undefined
  }

  #errandFor(queue: ConsumedQueue, lease: number, due: ReadonlyMap<ConsumedQueue, Lane[]>): Errand {
    const requests: Request[] = []
    let wanted = 0
    for (const request of this.#options.requests.for(queue, lease)) {
      // Jobs of a queue that it names before come first.
      if (request.queues.find((one) => due.has(one)) !== queue) continue
      requests.push(request)
      wanted += request.left
      if (wanted >= MOST_CLAIMED) break
    }
    return {
      queue,
      lease,
      requests,
      shares: queue.shares.of(due.get(queue)!, Math.min(wanted, MOST_CLAIMED)),
    }
  }

  /** By queue, those that have waited longest in front. */
  #dueLanes(): Map<ConsumedQueue, Lane[]> {
    const due = new Map<ConsumedQueue, Lane[]>()
    for (const { of: lane } of this.#options.timetable.due(this.#options.index)) {
      const queue = lane.shard.served as ConsumedQueue
      if (lane.claim || queue.waiting === 0) continue
      const lanes = due.get(queue)
      if (lanes) lanes.push(lane)
      else due.set(queue, [lane])
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
    const rounds = await claiming
    for (const { lane } of shares) {
      lane.claim = undefined
      timetable.file(lane)
    }
    if (rounds.length > 0) onLeased(errand.lease)
    await this.#handOut(errand, rounds)
    for (const request of requests) request.isAsking = false
    this.#options.requests.answer()
    timetable.wakeAll()
  }

  async #claim({ queue, lease, shares, requests }: Errand): Promise<Round[]> {
    const { database, clock, triesHeader, read } = this.#options
    const { maxPayloads, maxBytes, maxRetryCount } = queue.queue
    for (const { lane } of shares) lane.claimBegins(clock.now())
    try {
      const wishes = shares.map(({ lane, count }) => {
        const { key, cursor, spots } = lane
        return { key, cursor, count, spots, maxPayloads, maxBytes, maxRetryCount: maxRetryCount as number }
      })
      const claims = await claimLeased(database, lease, wishes, triesHeader, read)
      for (const [index, share] of shares.entries()) this.#claimed(queue, share, claims[index]!)
      return claims.flatMap(({ rounds }) => rounds)
    } catch (error) {
      this.#claimFailed(queue, shares, error)
      for (const request of requests) {
        this.#options.requests.remove(request)
        request.fail(error)
      }
      return []
    }
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

  /** In the order in which they were due, without what has expired. What comes for requests that are gone goes to others, or is released. */
  async #handOut({ queue, lease, requests }: Errand, rounds: readonly Round[]): Promise<void> {
    const ready: Round[] = []
    for (const round of rounds) {
      const complete = await this.#complete(queue, round)
      if (complete) ready.push(complete)
    }
    const { fresh, expired } = sortByExpiry(ready, this.#options.clock.now())
    if (expired.length > 0) this.#options.expire(queue, expired)
    const surplus: Round[] = []
    for (const round of fresh.toSorted((a, b) => a.performIn - b.performIn)) {
      const taker = requests.find(({ left }) => left > 0) ?? this.#other(queue, lease)
      if (taker) taker.give(jobFrom(queue, round))
      else surplus.push(round)
    }
    if (surplus.length > 0) this.#options.release(queue, surplus)
  }

  #other(queue: ConsumedQueue, lease: number): Request | undefined {
    for (const request of this.#options.requests.for(queue, lease)) return request
    return undefined
  }

  /** With all that its claim could not bring. If that fails, or the claim is lost, its lease ends. */
  async #complete(queue: ConsumedQueue, round: Round): Promise<Round | undefined> {
    const { database, logger, read } = this.#options
    if (!round.toLoad && !round.cut) return round
    try {
      const whole = round.toLoad
        ? await loadPayloads(database, LEASED, queue.queueId, round, queue.queue, read)
        : round
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
}

function jobFrom({ queue }: ConsumedQueue, round: Round): ClaimedJob {
  const job = { queue: queue.name, ...jobOf(round) }
  if (round.expired > 0) noteLeftOut(job, round.expired)
  return job
}
