import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { type Head, survey } from '../../store/head.ts'
import type { Message } from '../../store/wake.ts'
import type { FullScans } from '../assignment/assigner.ts'
import type { ServedQueues } from '../assignment/served-queues.ts'
import type { ShardLocks } from '../assignment/shard-locks.ts'
import type { ShardRef } from '../assignment/splitter.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import type { Timetable } from '../schedule/timetable.ts'
import { Flag } from './flag.ts'
import type { Looks } from './looks.ts'
import { Sifter } from './sifter.ts'

/** ms between cheap looks while there is traffic; doubled each time a look finds nothing. */
const SHORTEST_PAUSE = 2
/** ms. Once the pause is longer, nothing was found for a while, and producers are asked to send wake-ups. */
const CALM_PAUSE = 32
/** ms from raising the flag to the next look: a push that did not see the flag may be committed later. */
const FLAG_PAUSE = 16
/** ms between cheap looks while all slots are busy and more is due, so that other queues get their turn. */
const BUSY_PAUSE = 10
/** ms without wake-ups: after a crowd of them, and after slots were busy. */
const CROWD_SPELL = 5_000
const BUSY_SPELL = 1_000
/**
 * After a cheap look, the pause is at least this many times as long as the look. So looks take at most a third of the time.
 */
const LOOK_RATIO = 2
/** ms; an upper limit for that pause. If a look is slow, the machine is busy, and waiting longer makes no difference. */
const LONGEST_LOOK_PAUSE = 50
/** Full looks may take at most one part in this many of the time. */
const FULL_SCAN_RATIO = 25
/** Most poll intervals between full looks, however slow they are: jobs of dead processes and late commits wait for them. */
const LONGEST_FULL_SCAN_PAUSE = 5
/**
 * Most poll intervals between full looks if nothing has happened for long and wake-ups are heard: twice as many each time,
 * up to this. By default, one more than between the comparisons of a process in a crowd, which include the look.
 */
const LONGEST_REST = 6

export interface PollerOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly looks: Looks
  readonly locks: ShardLocks
  readonly logger: Logger
  readonly queues: Pick<ServedQueues, 'ids'>
  /** ms between full looks, and between cheap ones while waiting for wake-ups. At rest, looks come more rarely. */
  readonly poll: number
  /** Whether wake-ups are heard. */
  hears(): boolean
  processId(): number
  /** Polling failed; it is tried again. */
  onFailure(error: unknown): void
}

/**
 * Finds out when jobs are due. It raises the flag that makes producers send wake-ups, polls once more, since a push that
 * saw no flag may have committed in between, and then ever more rarely. If wake-ups come in crowds, or no slot could take
 * what they announce, it lowers the flag and polls every few milliseconds instead, until it stays quiet or a while has
 * passed.
 *
 * The full look, which finds what cursors have passed, also behind what limits keep waiting, comes at every poll interval, or
 * more rarely if it is slow. A worker at rest makes no cheap looks, and its comparisons include the full ones (see Assigner). So
 * an idle worker costs next to nothing.
 */
export class Poller implements Service, FullScans {
  readonly #options: PollerOptions
  readonly #loop = new Loop(() => this.#pass())
  readonly #flag: Flag
  readonly #sifter: Sifter
  #pause = SHORTEST_PAUSE
  #nextFullScan = 0
  #notBefore = 0
  /** ms that the last cheap look took. */
  #lookCost = 0
  /** Whether comparisons may include full looks: not if these take long or fail, since comparisons must not. */
  #goesAlong = false
  /** Whether a comparison has included a full look, but for what is to be sifted. */
  #toSift = false
  /** Poll intervals until the next separate full look, at rest. */
  #restPolls = 1
  #soon: NodeJS.Timeout | undefined
  #couldTake = true

  constructor(options: PollerOptions) {
    this.#options = options
    this.#flag = new Flag(options.locks, options.queues)
    this.#sifter = new Sifter(options)
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  async stop(): Promise<void> {
    clearTimeout(this.#soon)
    await this.#loop.stop()
  }

  /** A slot has nothing to do. */
  slotIdle(): void {
    this.#restPolls = 1
    if (this.#flag.isRaised) return
    this.#pause = SHORTEST_PAUSE
    clearTimeout(this.#soon)
    this.#soon = setTimeout(() => this.#loop.alarm.ring(), Math.max(0, this.#notBefore - performance.now()))
  }

  /** Shards came, or wake-ups may have been missed: makes a full look now. */
  fullScanSoon(): void {
    this.#nextFullScan = 0
    this.#loop.alarm.ring()
  }

  /**
   * A comparison begins, and includes a full look if one is due. A full look that is asked for from now on is another one,
   * since the server may have answered this one before. If one was asked for already, the next pass makes it.
   */
  fullScanAlong(): ShardRef[] {
    const now = performance.now()
    if (!this.#rests || !this.#goesAlong || this.#nextFullScan === 0 || now < this.#nextFullScan) return []
    this.#nextFullScan = now + this.#options.poll
    this.#restLonger()
    return this.#refs
  }

  /** It was answered. `took`: ms that it took together with the comparison. */
  fullScanAnswered(heads: readonly Head[], took: number): void {
    this.#goesAlong = took * FULL_SCAN_RATIO <= this.#options.poll
    this.#toSift = [...this.#options.timetable.queues].some(({ withheldLanes }) => withheldLanes.size > 0)
    if (this.#toSift) this.#loop.alarm.ring()
    this.#options.looks.find(heads)
  }

  /** It has failed: makes another one, separately. */
  fullScanFailed(): void {
    this.#goesAlong = false
    this.fullScanSoon()
  }

  /** The connection that held the flag broke. */
  flagLost(): void {
    this.#flag.lost()
    this.#pause = SHORTEST_PAUSE
  }

  /** A message named lanes with earlier jobs, or announced changes that only a full look shows. */
  hear(message: Message): void {
    if (message.kind !== 'heads' || message.heads.length === 0) {
      this.fullScanSoon()
      return
    }
    const { queueId } = message
    for (const head of message.heads) this.#options.looks.hear({ queueId, ...head })
    this.#flag.countWakeUp()
    if (this.#flag.isCrowded) this.#loop.alarm.ring()
  }

  async #pass(): Promise<void> {
    try {
      if (this.#flag.isCrowded) await this.#lowerFlag(CROWD_SPELL)
      if (this.#flag.isOfOthers) await this.#lowerFlag(0)
      const found = await this.#search()
      const canTake = this.#options.timetable.couldTake
      this.#pause = this.#nextPause(found, canTake)
      if (canTake && this.#isTimeForFlag()) await this.#raiseFlag()
      // Only if no slot could take anything in the last pass either.
      if (!canTake && !this.#couldTake) await this.#lowerFlag(BUSY_SPELL)
      this.#couldTake = canTake
    } catch (error) {
      this.#options.logger.warn(
        { event: 'looking', error: (error as Error).message },
        'looking for due jobs failed',
      )
      this.#options.onFailure(error)
      this.#pause = this.#options.poll
    }
    const rest = Math.min(Math.max(this.#lookCost * LOOK_RATIO, SHORTEST_PAUSE), LONGEST_LOOK_PAUSE)
    this.#notBefore = performance.now() + rest
    // If a full look was asked for during this pass, the alarm rang while nothing waited for it.
    if (!this.#loop.stopping && this.#nextFullScan > 0)
      await this.#loop.alarm.wait(Math.max(this.#pause, rest))
  }

  /** A slot that becomes idle rings the alarm. */
  #nextPause(found: boolean, canTake: boolean): number {
    if (!canTake) return this.#options.timetable.hasWaiting ? BUSY_PAUSE : CALM_PAUSE
    return found && !this.#flag.isRaised ? SHORTEST_PAUSE : Math.min(this.#pause * 2, this.#options.poll)
  }

  #isTimeForFlag(): boolean {
    return !this.#flag.isRaised && (this.#pause > CALM_PAUSE || this.#flag.mayRise)
  }

  /**
   * Polls if that can help: where enough slots serve each queue, too, since others of the queue may have their turn next. Returns
   * whether anything is due that may be picked.
   */
  async #search(): Promise<boolean> {
    const { timetable } = this.#options
    if (this.#isTimeForFullScan()) await this.#fullScan()
    else if (this.#toSift) await this.#sift()
    else if (timetable.couldTake ? !this.#rests : timetable.hasWaiting) await this.#pollDue()
    return timetable.hasDue
  }

  /** Whether the flag has been raised for a while, and wake-ups are heard. */
  get #rests(): boolean {
    return this.#flag.isRaised && this.#pause >= this.#options.poll && this.#options.hears()
  }

  #isTimeForFullScan(): boolean {
    const longer = this.#rests && this.#nextFullScan > 0 ? (this.#restPolls - 1) * this.#options.poll : 0
    return performance.now() >= this.#nextFullScan + longer
  }

  #restLonger(): void {
    this.#restPolls = Math.min(this.#restPolls * 2, LONGEST_REST)
  }

  get #refs(): ShardRef[] {
    return [...this.#options.timetable.shards].map(({ served, shard }) => ({
      queueId: served.queueId,
      shard,
    }))
  }

  async #fullScan(): Promise<void> {
    const { database, looks, poll, processId } = this.#options
    const startedAt = performance.now()
    this.#nextFullScan = startedAt + poll
    this.#goesAlong = false
    this.#restLonger()
    const shards = this.#refs
    if (shards.length > 0) looks.find(await survey(database, processId(), shards))
    await this.#sift()
    const spaced = Math.min((performance.now() - startedAt) * FULL_SCAN_RATIO, poll * LONGEST_FULL_SCAN_PAUSE)
    this.#goesAlong = spaced <= poll
    if (this.#nextFullScan > 0) this.#nextFullScan = Math.max(this.#nextFullScan, startedAt + spaced)
  }

  /** Takes no more of the time than a full look may. */
  async #sift(): Promise<void> {
    this.#toSift = false
    await this.#sifter.run(this.#options.poll / FULL_SCAN_RATIO)
  }

  async #pollDue(): Promise<void> {
    const startedAt = performance.now()
    await this.#options.looks.into(this.#options.timetable.queues)
    this.#lookCost = performance.now() - startedAt
  }

  async #lowerFlag(spell: number): Promise<void> {
    if (!this.#flag.isRaised) return
    this.#pause = SHORTEST_PAUSE
    await this.#flag.lower(spell)
  }

  /** The last look before waiting is a full one, since pushes into lanes that are still unknown woke no one. */
  async #raiseFlag(): Promise<void> {
    this.#pause = FLAG_PAUSE
    await this.#flag.raise()
    await this.#fullScan()
    this.#restPolls = 1
  }
}
