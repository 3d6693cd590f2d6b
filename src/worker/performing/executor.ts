import type { Instruments } from '../../instruments.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import { UnderWay } from '../../promises.ts'
import type { Claim, Round } from '../../store/claim.ts'
import { Bell } from '../lifecycle/bell.ts'
import { type Lane, LONGEST_JOINED } from '../schedule/lane.ts'
import { Portion } from '../schedule/portion.ts'
import type { ServedQueue } from '../schedule/served-queue.ts'
import type { ServerClock } from '../schedule/server-clock.ts'
import type { Shard } from '../schedule/shard.ts'
import { Throttling } from '../schedule/throttling.ts'
import type { Batcher } from '../settling/batcher.ts'
import { type Claimant, claimantOf } from '../settling/claimant.ts'
import { claimOf, observedClaim, observedRound } from '../settling/observed.ts'
import { Patience, type PatienceOptions } from './patience.ts'
import { Performer, type PerformerOptions } from './performer.ts'
import { type OnTaken, type PerformOther, WaitingSlots } from './waiting.ts'

/** ms after which prefetched jobs are begun by a slot that waits for a claim. */
const LONGEST_UNATTENDED = 10

export interface ExecutorOptions
  extends Omit<PatienceOptions, 'mayBegin' | 'releasePortion'>,
    Omit<PerformerOptions, 'mayBegin' | 'release'> {
  readonly batcher: Batcher
  /** Whether new work may be taken at all. */
  ready(): boolean
  readonly clock: ServerClock
  readonly instruments: Instruments
  readonly slots: number
  /** ms until a lane whose claim failed is tried again. */
  readonly poll: number
}

/**
 * What a slot does with a lane: it takes a batch of prefetched rounds or claims some, and has the batch performed. What does
 * not begin in time is released.
 */
export class Executor {
  readonly patience: Patience
  readonly #options: ExecutorOptions
  readonly #performer: Performer
  readonly #claims = new UnderWay()
  readonly #waiting = new WaitingSlots()
  readonly #throttling: Throttling

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#throttling = new Throttling(options)
    this.patience = new Patience({
      ...options,
      mayBegin: (lane, processId) => this.#mayBegin(lane, processId),
      releasePortion: (lane, portion) => this.#releasePortion(lane, portion),
    })
    this.#performer = new Performer({
      ...options,
      mayBegin: (lane, processId) => this.#mayBegin(lane, processId),
      release: (lane, claimant, rounds) => this.#release(lane, claimant, rounds),
    })
  }

  /** `performOther`: what the slot may do while it waits for a claim. */
  serve(lane: Lane, slot: number, performOther: PerformOther, onTaken: OnTaken = () => {}): Promise<void> {
    const [portion] = lane.portions
    if (portion) return this.#begin(lane, portion, slot, onTaken)
    return this.#claimAndBegin(lane, slot, performOther, onTaken)
  }

  /**
   * The shards go, or the worker takes nothing new: what has not begun is released for others. Resolves when all of it
   * waits again, including what claims under way bring: a process that got the shard before that would begin jobs that are
   * due later.
   */
  async recall(shards: Iterable<Shard>): Promise<void> {
    const lanes = [...shards].flatMap((shard) => [...shard.lanes.values()])
    for (const lane of lanes) for (const portion of [...lane.portions]) this.#releasePortion(lane, portion)
    await Promise.all(lanes.map((lane) => lane.waitsAgain()))
  }

  /** Resolves when no claim is under way. What claims bring when no work may begin any more is released. */
  async claimsEnded(): Promise<void> {
    await this.#claims.ended()
  }

  /**
   * Several slots may wait for claims of one lane. They resume in the order in which they came, and each takes its batch at
   * once. For those that a claim has left without one, the next claim asks.
   */
  async #claimAndBegin(
    lane: Lane,
    slot: number,
    performOther: PerformOther,
    onTaken: OnTaken,
  ): Promise<void> {
    const { timetable } = this.#options
    this.#waiting.begin(slot, performOther)
    lane.waiting += 1
    do await this.#nextClaim(lane)
    while (!this.#waiting.isPerforming(slot) && this.#mayAskAgain(lane))
    lane.waiting -= 1
    const performing = this.#waiting.end(slot)
    if (performing) {
      // Others may take what the claim has brought.
      timetable.file(lane)
      await performing
    }
    const [portion] = lane.portions
    // The slot that begins with the portion files the lane for the others.
    if (portion && lane.shard.served.room >= 0) await this.#begin(lane, portion, slot, onTaken)
    else timetable.file(lane)
  }

  /** Resolves when the next claim has ended; if one is under way, when that has ended, or takes too long. */
  #nextClaim(lane: Lane): Promise<void> {
    const joined = lane.claim
    const claim = joined ?? this.#startClaim(lane)
    this.#options.timetable.file(lane)
    return joined ? this.#join(lane, claim) : claim
  }

  async #join(lane: Lane, claim: Promise<void>): Promise<void> {
    const bell = new Bell()
    void claim.then(() => bell.ring())
    await bell.wait(LONGEST_JOINED)
    if (lane.claim === claim) lane.isStuck = true
  }

  /** Whether a claim has brought nothing for the slot, and the next one is likely to. */
  #mayAskAgain(lane: Lane): boolean {
    const { processId } = this.#options.membership
    return lane.isWorthWaiting && !lane.returned && this.#mayBegin(lane, processId)
  }

  #startClaim(lane: Lane): Promise<void> {
    const claim = this.#claims.watch(this.#claim(lane))
    lane.claim = claim
    // If slots wait for it, they file the lane.
    void claim.then(() => lane.waiting > 0 || this.#options.timetable.file(lane))
    return claim
  }

  async #claim(lane: Lane): Promise<void> {
    const { membership, clock } = this.#options
    if (lane.returned) {
      // More may be released meanwhile.
      while (lane.returned) await lane.returned
      if (!this.#mayBegin(lane, membership.processId)) {
        lane.claim = undefined
        return
      }
    }
    const call = membership.retain()
    const { processId } = call
    lane.claimBegins(clock.now())
    try {
      const count = this.#countFor(lane)
      const taken = await this.#ask(lane, processId, count)
      lane.claimEnded(taken, clock.now())
      this.#heed(lane, taken)
      if (lane.overdue !== undefined) this.patience.waitFor(lane, lane.overdue)
      if (taken.rounds.length > 0) this.#bring(lane, processId, taken.rounds, count)
    } catch (error) {
      await this.#claimFailed(lane, error)
    } finally {
      lane.claim = undefined
      call.release()
    }
  }

  /** Limits may keep other lanes of the queue waiting, too, or no longer. */
  #heed(lane: Lane, taken: Claim): void {
    const { queue, withheldLanes } = lane.shard.served
    this.#options.timetable.heed(lane, taken)
    this.#throttling.doubt(queue.name, lane.withholding.unmet, withheldLanes.trust)
    if (taken.waits) this.#throttling.meet(queue.name, taken.waits.limits)
  }

  /**
   * If handlers are quick and the lane's turn comes soon, claims ahead: the answer is here when what is prefetched has
   * begun.
   */
  #claimAhead(lane: Lane): void {
    if (lane.shard.served.prefetch.isLarge && lane.isLow(this.#options.clock.now()))
      void this.#startClaim(lane)
  }

  /**
   * As many jobs as are done in a few milliseconds, or a batch for each slot that waits or sleeps, which begins at once. Of
   * the lanes that have something due, only some are prefetched, unless the scheduler goes to and fro: about half as many as
   * there are slots, since half of the slots perform while the others' claims are under way.
   */
  #countFor(lane: Lane): number {
    const { timetable, slots } = this.#options
    const { served } = lane.shard
    const prefetched = Math.max(served.prefetched.size + 1, Math.ceil(slots / 2))
    const lanes = Math.min(timetable.dueLanes + 1, prefetched)
    const waiting = Math.max(1, lane.waiting)
    return served.prefetch.jobsFor(lanes, waiting + Math.min(timetable.spareSlots, served.room))
  }

  #ask(lane: Lane, processId: number, count: number): Promise<Claim> {
    const { batcher, instruments } = this.#options
    const { key, cursor, spots, likely, shard } = lane
    const { queue, prefetch } = shard.served
    const { maxPayloads, maxBytes } = queue
    const wish = { key, cursor, count, spots, maxPayloads, maxBytes }
    const jobs = Math.min(count, likely)
    const claim = () => batcher.claim(processId, wish, { jobs, size: prefetch.likelySize(jobs) })
    return instruments.watch('claim', claimOf(lane, processId, count), claim, observedClaim)
  }

  async #claimFailed(lane: Lane, error: unknown): Promise<void> {
    const { clock, logger, onFailure, poll, onLostAnswer } = this.#options
    const queue = lane.shard.served.queue.name
    logger.warn({ event: 'claiming', error: (error as Error).message, queue }, 'claiming failed')
    onFailure(error)
    lane.claimFailed(clock.now() + poll * 1000)
    if (isConnectionFailure(error)) await onLostAnswer()
  }

  #bring(lane: Lane, processId: number, rounds: readonly Round[], asked: number): void {
    const { membership, instruments } = this.#options
    const queue = lane.shard.served.queue.name
    for (const round of rounds)
      if (round.rescued) instruments.tell('rescue', { queue, round: observedRound(round) })
    const portion = new Portion(membership.retain(rounds.length, processId), rounds, asked)
    lane.bring(portion)
    if (lane.isAhead || !this.#mayBegin(lane, processId)) this.#releasePortion(lane, portion)
    else this.#watchOver(lane, portion)
  }

  /** If no slot begins with the jobs, one that waits for a claim does. If there is none, they are released in the end. */
  #watchOver(lane: Lane, portion: Portion): void {
    const left = portion.until - performance.now()
    const check = () => {
      if (left <= LONGEST_UNATTENDED) return this.#releasePortion(lane, portion)
      this.#waiting.wake(lane.shard.slot)
      if (!portion.isEmpty) this.#watchOver(lane, portion)
    }
    portion.timer = setTimeout(check, Math.max(0, Math.min(LONGEST_UNATTENDED, left)))
  }

  /**
   * Jobs that do not begin in time are released: by the timer while handlers run, or here if handlers kept it from firing.
   */
  async #begin(lane: Lane, portion: Portion, slot: number, onTaken: OnTaken): Promise<void> {
    const { timetable } = this.#options
    const { served } = lane.shard
    // Other slots may have taken all of it since it was claimed.
    if (portion.isEmpty) return
    const claimant = claimantOf(lane, portion.retention, slot)
    // The timer can't fire between handlers that never yield to the event loop.
    if (!this.#mayBegin(lane, claimant.processId) || claimant.startedAt > portion.until)
      return this.#releasePortion(lane, portion)
    const taken = lane.take(portion, served.queue.batchSize)
    onTaken(taken)
    this.#claimAhead(lane)
    timetable.file(lane)
    await this.#performer.begin(lane, claimant, taken)
    this.#ended(portion, served, taken.length)
    // The next claim goes with the outcomes, and comes after them.
    timetable.freed(served, taken.length, new Set(taken.map(({ tenant }) => tenant)))
  }

  #ended(portion: Portion, { prefetch }: ServedQueue, count: number): void {
    if (!portion.ended(count)) return
    prefetch.satisfied(portion.rounds, portion.asked, portion.took)
  }

  /** Also releases all prefetched jobs that are due after it: they would come first. */
  #releasePortion(lane: Lane, portion: Portion): void {
    if (portion.isEmpty) return
    for (const one of lane.portionsFrom(portion)) {
      const rest = one.takeRest()
      lane.drop(one)
      this.#release(lane, claimantOf(lane, one.retention, 0), rest)
      this.#ended(one, lane.shard.served, rest.length)
    }
    this.#options.timetable.file(lane)
  }

  /**
   * Whether rounds claimed under `processId` may begin. Meanwhile the worker may have been told to stop, its lease may have
   * ended, or the shard may be gone.
   */
  #mayBegin({ shard }: Lane, processId: number): boolean {
    const { membership, ready } = this.#options
    return ready() && processId === membership.processId && shard.isHeld
  }

  #release(lane: Lane, claimant: Claimant, rounds: readonly Round[]): void {
    if (rounds.length === 0) return
    lane.goesBack(this.#options.completer.release(claimant, rounds))
  }
}
