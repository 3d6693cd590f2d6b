import type { Instruments } from '../../instruments.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import { UnderWay } from '../../promises.ts'
import type { Claim, Round } from '../../store/claim.ts'
import type { Lane } from '../schedule/lane.ts'
import { Portion } from '../schedule/portion.ts'
import type { ServedQueue } from '../schedule/served-queue.ts'
import type { ServerClock } from '../schedule/server-clock.ts'
import type { Shard } from '../schedule/shard.ts'
import type { Batcher } from '../settling/batcher.ts'
import type { Claimant } from '../settling/completer.ts'
import { claimOf, observedClaim, observedRound } from '../settling/observed.ts'
import { performBatch } from './batch.ts'
import type { InFlight, InFlightBatch } from './in-flight.ts'
import { Loading, type LoadingOptions } from './loading.ts'
import { Patience, type PatienceOptions } from './patience.ts'
import { Abort } from './perform.ts'
import type { BatchSettings } from './transaction.ts'

/** Who took what is in hand. */
type Hand = Omit<Claimant, 'startedAt'>

export interface ExecutorOptions extends Omit<PatienceOptions, 'mayBegin' | 'release'>, LoadingOptions {
  readonly batcher: Batcher
  readonly batchSettings: BatchSettings
  readonly inFlight: InFlight
  /** Whether new work may be taken at all. */
  ready(): boolean
  readonly clock: ServerClock
  readonly instruments: Instruments
  readonly slots: number
  /** ms until a lane is tried again whose claim failed. */
  readonly poll: number
}

/** What a slot does with a lane: take a batch of what is in hand, or claim, perform it, and have its outcome stored. */
export class Executor {
  readonly patience: Patience
  readonly #options: ExecutorOptions
  readonly #loading: Loading
  readonly #claims = new UnderWay()

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.patience = new Patience({
      ...options,
      mayBegin: (lane, processId) => this.#mayBegin(lane, processId),
      release: (lane, portion) => this.#releasePortion(lane, portion),
    })
    this.#loading = new Loading(options)
  }

  async serve(lane: Lane, slot: number): Promise<void> {
    const portion = lane.hand[0] ?? (await this.#claimed(lane))
    if (portion) await this.#begin(lane, portion, slot)
  }

  /**
   * The shard goes, or the worker takes nothing new: what has not begun is free for others. Resolves when all of it waits
   * again, with what claims under way bring: whoever has the shard before that begins what is due later.
   */
  async recall(shards: Iterable<Shard>): Promise<void> {
    const lanes = [...shards].flatMap((shard) => [...shard.lanes.values()])
    for (const lane of lanes) for (const portion of [...lane.hand]) this.#releasePortion(lane, portion)
    await Promise.all(lanes.map((lane) => lane.waitsAgain()))
  }

  /** Resolves when no claim is under way. What they bring once no work may begin goes back. */
  async claimsEnded(): Promise<void> {
    await this.#claims.ended()
  }

  /** What the next claim brings, or the one that is under way. */
  async #claimed(lane: Lane): Promise<Portion | undefined> {
    const { timetable } = this.#options
    lane.claim ??= this.#claims.watch(this.#claim(lane))
    lane.isAwaited = true
    timetable.file(lane)
    await lane.claim
    lane.isAwaited = false
    const [portion] = lane.hand
    // Whoever begins with it tells the others of the rest.
    if (!portion) timetable.file(lane)
    return portion
  }

  async #claim(lane: Lane): Promise<void> {
    const { membership, clock } = this.#options
    if (lane.returned) {
      // More may go back meanwhile.
      while (lane.returned) await lane.returned
      if (!this.#mayBegin(lane, membership.processId)) {
        lane.claim = undefined
        return
      }
    }
    const call = membership.retain()
    const { processId } = call
    lane.claimBegins()
    try {
      const count = this.#countFor(lane)
      const taken = await this.#ask(lane, processId, count)
      lane.claimEnded(taken, clock.now())
      if (lane.overdue !== undefined) this.patience.waitFor(lane, lane.overdue)
      if (taken.rounds.length > 0) this.#bring(lane, processId, taken.rounds, count)
    } catch (error) {
      await this.#claimFailed(lane, error)
    } finally {
      lane.claim = undefined
      call.release()
    }
  }

  /** Where handlers are quick and its turn comes soon, the next claim is answered when what is in hand has begun. */
  #claimAhead(lane: Lane): void {
    const { timetable, clock } = this.#options
    if (!lane.shard.served.prefetch.isLarge || !lane.isLow(clock.now())) return
    lane.claim = this.#claims.watch(this.#claim(lane))
    void lane.claim.then(() => lane.isAwaited || timetable.file(lane))
  }

  /**
   * As many as are done in a few milliseconds, or as there are slots that sleep: they begin at once. Of the lanes that have
   * something due only some are in hand, unless the scheduler goes to and fro: half of the slots perform, while the others'
   * claims are under way.
   */
  #countFor({ shard: { served } }: Lane): number {
    const { timetable, slots } = this.#options
    const prefetched = Math.max(served.prefetched.size + 1, Math.ceil(slots / 2))
    const lanes = Math.min(timetable.dueLanes + 1, prefetched)
    return served.prefetch.jobsFor(lanes, 1 + Math.min(timetable.spareSlots, served.room))
  }

  #ask(lane: Lane, processId: number, count: number): Promise<Claim> {
    const { batcher, instruments } = this.#options
    const { key, cursor, likely, shard } = lane
    const { queue, prefetch } = shard.served
    const { maxPayloads, maxBytes } = queue
    const wish = { key, cursor, count, maxPayloads, maxBytes }
    const jobs = Math.min(count, likely)
    const claim = () => batcher.claim(processId, wish, { jobs, size: prefetch.likelySize(jobs) })
    return instruments.watch('claim', claimOf(lane, processId, count), claim, observedClaim)
  }

  async #claimFailed(lane: Lane, error: unknown): Promise<void> {
    const { clock, logger, onFailure, poll, onLostAnswer } = this.#options
    const queue = lane.shard.served.queue.name
    logger.warn({ error: (error as Error).message, queue }, 'claiming failed')
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
    else
      portion.timer = setTimeout(() => this.#releasePortion(lane, portion), portion.until - performance.now())
  }

  /** What has not begun in time, while handlers run or because they did, is released. */
  async #begin(lane: Lane, portion: Portion, slot: number): Promise<void> {
    const { timetable } = this.#options
    const { served, shard } = lane.shard
    // Somebody else may have taken all of it since it was brought.
    if (portion.isEmpty) return
    // A timer does not come between handlers that leave the event loop no turn.
    if (!this.#mayBegin(lane, portion.retention.processId) || performance.now() > portion.until)
      return this.#releasePortion(lane, portion)
    const taken = lane.take(portion, served.queue.batchSize)
    this.#claimAhead(lane)
    timetable.file(lane)
    const hand = { ...portion.retention, served, shard, slot }
    if (taken[0]!.toLoad) await this.#loadAndPerform(lane, hand, taken[0]!)
    else await this.#perform(lane, hand, taken)
    this.#ended(portion, served, taken.length)
  }

  #ended(portion: Portion, { prefetch }: ServedQueue, count: number): void {
    if (!portion.ended(count)) return
    prefetch.satisfied(portion.rounds, portion.asked, portion.took)
  }

  /** With all that is due after it in hand: that would come first. */
  #releasePortion(lane: Lane, portion: Portion): void {
    if (portion.isEmpty) return
    const { served, shard } = lane.shard
    for (const one of lane.handFrom(portion)) {
      const rest = one.takeRest()
      lane.drop(one)
      this.#release(lane, { ...one.retention, served, shard, slot: 0 }, rest)
      this.#ended(one, served, rest.length)
    }
    this.#options.timetable.file(lane)
  }

  async #loadAndPerform(lane: Lane, hand: Hand, round: Round): Promise<void> {
    const claimant = { ...hand, startedAt: performance.now() }
    const loaded = await this.#loading.load(claimant, round, () => this.#mayBegin(lane, hand.processId))
    if (loaded) await this.#performOrRelease(lane, hand, [loaded])
  }

  async #performOrRelease(lane: Lane, hand: Hand, rounds: readonly Round[]): Promise<void> {
    if (this.#mayBegin(lane, hand.processId)) await this.#perform(lane, hand, rounds)
    else this.#release(lane, hand, rounds)
  }

  /** Meanwhile the worker may have been told to stop, its lease may have ended, or the shard may be gone. */
  #mayBegin({ shard }: Lane, processId: number): boolean {
    const { membership, ready } = this.#options
    return ready() && processId === membership.processId && shard.isHeld
  }

  #release(lane: Lane, hand: Hand, rounds: readonly Round[]): void {
    if (rounds.length === 0) return
    const claimant = { ...hand, startedAt: performance.now() }
    lane.goesBack(this.#options.completer.release(claimant, rounds))
  }

  async #perform(lane: Lane, hand: Hand, rounds: readonly Round[]): Promise<void> {
    const { inFlight, batchSettings, completer, membership } = this.#options
    const { served } = hand
    const claimant = { ...hand, startedAt: performance.now() }
    const batch: InFlightBatch = {
      queue: served.queue,
      rounds,
      claimant,
      abort: new Abort(),
      describe: this.#options.describe,
      holdsLease: () => membership.holds(hand.processId),
    }
    inFlight.add(batch)
    let parts: readonly Round[][]
    try {
      parts = await performBatch(batchSettings, completer, claimant, batch)
    } finally {
      inFlight.remove(batch)
    }
    for (const part of parts) await this.#performOrRelease(lane, hand, part)
  }
}
