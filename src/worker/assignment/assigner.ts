import type { Instruments } from '../../instruments.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import { type Release, servesUs, successorOf } from '../../postgres/release.ts'
import { type Comparison, compare } from '../../store/comparison.ts'
import type { Head } from '../../store/head.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import type { StrandedSessions } from '../membership/stranded.ts'
import type { ServerClock } from '../schedule/server-clock.ts'
import { Holdings, type HoldingsOptions } from './holdings.ts'
import { News } from './news.ts'
import type { ServedQueues } from './served-queues.ts'
import type { ShardRef } from './splitter.ts'
import { type Ring, ringOf, untilTurn } from './watch.ts'

/** ms that a comparison may take before the database counts as not answering. */
const LONGEST_COMPARISON = 3_000

/** Full looks that are included in comparisons (see Poller). */
export interface FullScans {
  /** The shards for a full look, if one is due. If there are any, one of the other two is called afterwards. */
  fullScanAlong(): readonly ShardRef[]
  /** `took`: ms that the look took together with the comparison. */
  fullScanAnswered(heads: readonly Head[], took: number): void
  fullScanFailed(): void
}

export interface AssignerOptions extends Omit<HoldingsOptions, 'onFreed'> {
  readonly database: Database
  readonly stranded: StrandedSessions
  readonly queues: ServedQueues
  /** ms between comparisons of a process that is alone. */
  readonly rebalanceInterval: number
  readonly logger: Logger
  readonly instruments: Instruments
  readonly clock: ServerClock
  readonly fullScans: FullScans
  /** Whether the lease runs. Without it, this process owns nothing. */
  alive(): boolean
  /** Whether this process would hear what others report. */
  hears(): boolean
  /**
   * A former session of this process still has its locks: the connection broke, and the server doesn't know yet. If the
   * process registers again, the session counts as that of a process which is gone, and can be ended.
   */
  onOutlived(): void
  /** A comparison failed. The next one comes as usual. */
  onFailure(error: unknown): void
  /** Shards were taken, released or lost; `shards` are held now. */
  onRebalanced(shards: number): void
  /** The processes or queues have changed. */
  onChanged(): void
  /**
   * The result of a comparison, and when it was asked for and answered, in ms of the monotonic clock. Not called while the
   * lease has ended.
   */
  onCompared(seen: Comparison, askedAt: number, answeredAt: number): void
  /** ms until another part of the worker needs a comparison. */
  nextSight(): number
  /** A later release has migrated the database, and its definitions no longer serve this one. */
  onOutdated(by: Release): void
}

/**
 * Keeps this process's part of the shards. It compares live processes and shards, releases shards beyond its part, and
 * takes free ones that belong to it. It does so in its turn (see watch.ts), when others report a change, and at each
 * rebalance interval if something of its own is pending.
 */
export class Assigner implements Service {
  readonly #options: AssignerOptions
  readonly #loop = new Loop(() => this.#pass())
  readonly #holdings: Holdings
  readonly #news: News
  #ring: Ring = { size: 1, place: -1 }
  #lockedAs = 0
  #told = 0
  #quiet = false
  #soon = false
  /** Another process has released shards since the last comparison began. */
  #freed = false
  #missing = false
  #failing = false
  /** When the comparison under way was asked for, in ms of the monotonic clock. */
  #askedAt: number | undefined

  constructor(options: AssignerOptions) {
    const { database, logger } = options
    this.#options = options
    this.#news = new News(database, logger)
    this.#holdings = new Holdings({ ...options, onFreed: () => this.#news.freed() })
  }

  /** Whether the database has answered the last comparison. If one is under way, it may still be answered in time. */
  get isAnswered(): boolean {
    const asked = this.#askedAt !== undefined && performance.now() - this.#askedAt > LONGEST_COMPARISON
    return !this.#failing && !asked
  }

  /** Awaits the first comparison, so that a start that can't work fails. */
  async start(): Promise<void> {
    await this.#rebalance()
    await this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  /** Takes nothing new, and releases every shard. */
  async quiet(): Promise<void> {
    this.#quiet = true
    await this.#holdings.quiet()
  }

  /** Something has changed: compares now, or once more if a comparison is under way. */
  rebalanceSoon(): void {
    this.#soon = true
    this.#loop.alarm.ring()
  }

  /** Another process has seen this state (see Comparison). */
  changed(state: string): void {
    if (this.#news.hear(state)) this.rebalanceSoon()
  }

  /** Another process has released shards. */
  freed(): void {
    this.#freed = true
    if (this.#missing) this.#loop.alarm.ring()
  }

  /** The lock connection broke: no shard is ours until it is locked again. */
  locksLost(): void {
    this.#lockedAs = 0
    this.#told = 0
    this.#holdings.lost()
    this.rebalanceSoon()
  }

  async #pass(): Promise<void> {
    if (!this.#soon && !(this.#freed && this.#missing)) await this.#loop.alarm.wait(this.#pause())
    if (this.#loop.stopping) return
    try {
      await this.#rebalance()
      this.#failing = false
    } catch (error) {
      this.#failing = true
      await this.#tell(error)
    }
  }

  /** ms until the next comparison, unless something happens. */
  #pause(): number {
    const { rebalanceInterval, clock, hears, nextSight } = this.#options
    const needs = { own: this.#isPending(), hears: hears() }
    return Math.min(untilTurn(rebalanceInterval, this.#ring, needs, clock.now() / 1000), nextSight())
  }

  /** Whether something is pending that others can't report to this process. */
  #isPending(): boolean {
    const { alive, stranded } = this.#options
    if (this.#failing || this.#quiet || this.#lockedAs === 0 || !alive()) return true
    return this.#missing || this.#news.owed || stranded.pending
  }

  /** Reports a failed comparison. A later release may have changed what a comparison reads. */
  async #tell(error: unknown): Promise<void> {
    const { database, logger, onFailure, onOutdated } = this.#options
    logger.warn(
      { event: 'comparing', error: (error as Error).message },
      'comparing processes and shards failed',
    )
    onFailure(error)
    if (isConnectionFailure(error)) return
    const successor = await successorOf(database).catch(() => undefined)
    if (successor) onOutdated(successor)
  }

  async #rebalance(): Promise<void> {
    const { instruments, processId } = this.#options
    await instruments.watch(
      'rebalance',
      { processId: processId() },
      () => this.#compareAndFollow(),
      (changed) => ({ shards: this.#holdings.count, changed }),
    )
  }

  /** Returns whether shards were taken or released. */
  async #compareAndFollow(): Promise<boolean> {
    const { stranded, alive, onOutdated } = this.#options
    this.#soon = false
    this.#freed = false
    await stranded.end()
    const isAlive = alive()
    if (isAlive) await this.#lockProcess()
    const { seen, askedAt, answeredAt } = await this.#compare()
    if (seen.release && !servesUs(seen.release)) {
      onOutdated(seen.release)
      return false
    }
    if (!isAlive) return this.#holdings.letGoOfAll()
    this.#options.onCompared(seen, askedAt, answeredAt)
    // In parallel, so that neither waits for the other.
    const telling = this.#news.see(seen.state).then((isNew) => isNew && this.#options.onChanged())
    const changed = await this.#follow(seen)
    await telling
    return changed
  }

  /** Includes a full look that is due, so that it costs no transaction of its own. */
  async #compare(): Promise<{ seen: Comparison; askedAt: number; answeredAt: number }> {
    const { database, queues, fullScans, processId } = this.#options
    const shards = fullScans.fullScanAlong()
    const askedAt = performance.now()
    this.#askedAt = askedAt
    try {
      const seen = await compare(database, { names: queues.names, processId: processId(), shards })
      const answeredAt = performance.now()
      if (shards.length > 0) fullScans.fullScanAnswered(seen.heads, answeredAt - askedAt)
      return { seen, askedAt, answeredAt }
    } catch (error) {
      if (shards.length > 0) fullScans.fullScanFailed()
      throw error
    } finally {
      this.#askedAt = undefined
    }
  }

  async #follow(seen: Comparison): Promise<boolean> {
    const { queues, processId } = this.#options
    const makes = !this.#quiet && queues.lacks(seen.queues)
    const rows = await queues.compare(seen.queues, makes)
    // The next comparison shows, and reports, what this process has just changed itself.
    if (makes) this.#soon = true
    this.#ring = ringOf(seen.processes, processId())
    const { changed, missing } = await this.#holdings.rebalance(queues, rows, seen.processes)
    this.#missing = missing
    const held = this.#holdings.count
    if (changed || this.#told !== held) this.#options.onRebalanced(held)
    this.#told = held
    return changed
  }

  async #lockProcess(): Promise<void> {
    const { locks, onOutlived } = this.#options
    const processId = this.#options.processId()
    if (processId === this.#lockedAs || this.#quiet) return
    if (!(await locks.lockProcess(processId))) onOutlived()
    // Set before anything else is awaited: the connection may break meanwhile, and then the lock must be taken again.
    const former = this.#lockedAs
    this.#lockedAs = processId
    if (former > 0) await locks.unlockProcess(former)
  }
}
