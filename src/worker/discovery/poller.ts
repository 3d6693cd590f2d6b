import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { type Head, look, survey } from '../../store/head.ts'
import type { Message } from '../../store/wake.ts'
import type { FullScans } from '../assignment/assigner.ts'
import type { ServedQueues } from '../assignment/served-queues.ts'
import type { ShardLocks } from '../assignment/shard-locks.ts'
import type { ShardRef } from '../assignment/splitter.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import type { Timetable } from '../schedule/timetable.ts'
import { Flag } from './flag.ts'
import { Lateness } from './lateness.ts'

/** ms from one cheap look to the next while there is traffic; doubled each time nothing was found. */
const SHORTEST_PAUSE = 2
/** Nothing found for so long: from now on producers are asked to send wake-ups. */
const CALM_PAUSE = 32
/** ms from raising the flag to the next look: a push that saw none may be committed later. */
const FLAG_PAUSE = 16
/** ms from one cheap look to the next where all slots are at work, and there is more: other queues may have their turn. */
const BUSY_PAUSE = 10
/** ms that traffic goes on without wake-ups: after a crowd of them, and where slots were at work. */
const CROWD_SPELL = 5_000
const BUSY_SPELL = 1_000
/** A cheap look may take one part in so many of the time. */
const LOOK_RATIO = 2
/** Where it is slow, the machine is busy, and waiting longer makes no difference. */
const LONGEST_LOOK_PAUSE = 50
/** A full look may take one part in so many of the time. */
const FULL_SCAN_RATIO = 25
/** Poll intervals from one full look to the next at most: dead processes' jobs and late commits wait for it. */
const LONGEST_FULL_SCAN_PAUSE = 5
/**
 * And at most where nothing has happened for long, and wake-ups are heard: twice as many each time. By default one more than
 * there are between the comparisons of a process in a crowd, which bring the look along.
 */
const LONGEST_REST = 6

export interface PollerOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly locks: ShardLocks
  readonly logger: Logger
  readonly queues: ServedQueues
  /** ms between full looks, and between cheap ones while waiting to be woken; at rest they come more rarely. */
  readonly poll: number
  /** Whether wake-ups are heard. */
  hears(): boolean
  processId(): number
  /** Looking failed; it is tried again. */
  onFailure(error: unknown): void
}

/**
 * Finds out when jobs are due. It raises the flag that makes producers send wake-ups, looks once more, since a push
 * that saw no flag may have committed in between, and then ever more rarely. Where wake-ups come in crowds, or nobody
 * could take what they tell of, it lowers the flag, and looks every few milliseconds instead, until it stays quiet or a
 * while has passed. The full look, which finds what cursors have passed, comes at every poll interval, or more rarely
 * where it is slow. A worker at rest does without the cheap one, and has the full one brought along by comparisons (see
 * Assigner): whoever idles costs next to nothing.
 */
export class Poller implements Service, FullScans {
  readonly #options: PollerOptions
  readonly #loop = new Loop(() => this.#pass())
  readonly #flag: Flag
  readonly #lateness = new Lateness()
  #pause = SHORTEST_PAUSE
  #nextFullScan = 0
  #notBefore = 0
  /** ms that the last cheap look took. */
  #lookCost = 0
  /** Whether full looks may go along with comparisons: not where they take long, or fail, since those must not. */
  #goesAlong = false
  /** Poll intervals until the next full look of its own, at rest. */
  #restPolls = 1
  #soon: NodeJS.Timeout | undefined
  #couldTake = true

  constructor(options: PollerOptions) {
    this.#options = options
    this.#flag = new Flag(options.locks, options.queues)
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

  /** Shards came, or wake-ups may have been missed: look at everything now. */
  fullScanSoon(): void {
    this.#nextFullScan = 0
    this.#loop.alarm.ring()
  }

  /**
   * A comparison begins: it brings a full look along, if one is due. Whoever asks for one from now on gets another, since this
   * one may have been answered before. Where one was asked for already, the next pass makes it.
   */
  fullScanAlong(): ShardRef[] {
    const now = performance.now()
    if (!this.#rests || !this.#goesAlong || this.#nextFullScan === 0 || now < this.#nextFullScan) return []
    this.#nextFullScan = now + this.#options.poll
    this.#restLonger()
    return this.#refs
  }

  /** It has ended. `took`: ms that it took with the comparison. */
  fullScanAnswered(heads: readonly Head[], took: number): void {
    this.#goesAlong = took * FULL_SCAN_RATIO <= this.#options.poll
    this.#passOn(heads)
  }

  /** It has failed: another one, by itself. */
  fullScanFailed(): void {
    this.#goesAlong = false
    this.fullScanSoon()
  }

  /** The connection that held the flag broke. */
  flagLost(): void {
    this.#flag.lost()
    this.#pause = SHORTEST_PAUSE
  }

  /** Somebody named lanes with earlier jobs, or spoke of changes that only a full look shows. */
  hear(message: Message): void {
    if (message.kind !== 'heads' || message.heads.length === 0) {
      this.fullScanSoon()
      return
    }
    const { queueId } = message
    this.#passOn(message.heads.map((head) => ({ queueId, ...head })))
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
      // Not for a moment alone.
      if (!canTake && !this.#couldTake) await this.#lowerFlag(BUSY_SPELL)
      this.#couldTake = canTake
    } catch (error) {
      this.#options.logger.warn({ error: (error as Error).message }, 'looking for due jobs failed')
      this.#options.onFailure(error)
      this.#pause = this.#options.poll
    }
    const rest = Math.min(Math.max(this.#lookCost * LOOK_RATIO, SHORTEST_PAUSE), LONGEST_LOOK_PAUSE)
    this.#notBefore = performance.now() + rest
    // Whoever asked for a full scan while this pass was under way rang for nobody.
    if (!this.#loop.stopping && this.#nextFullScan > 0)
      await this.#loop.alarm.wait(Math.max(this.#pause, rest))
  }

  /** A slot that becomes idle rings. */
  #nextPause(found: boolean, canTake: boolean): number {
    if (!canTake) return found ? BUSY_PAUSE : CALM_PAUSE
    return found && !this.#flag.isRaised ? SHORTEST_PAUSE : Math.min(this.#pause * 2, this.#options.poll)
  }

  #isTimeForFlag(): boolean {
    return !this.#flag.isRaised && (this.#pause > CALM_PAUSE || this.#flag.mayRise)
  }

  /** Looks, where that can help, and says whether anything is due. */
  async #search(): Promise<boolean> {
    const { timetable } = this.#options
    if (this.#isTimeForFullScan()) await this.#fullScan()
    else if (timetable.couldTake ? !this.#rests : timetable.hasDue) await this.#pollDue()
    return timetable.hasDue
  }

  /** The flag is up and wake-ups are heard, and that for a while. */
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
    const { database, poll, processId } = this.#options
    const startedAt = performance.now()
    this.#nextFullScan = startedAt + poll
    this.#goesAlong = false
    this.#restLonger()
    const shards = this.#refs
    if (shards.length > 0) this.#passOn(await survey(database, processId(), shards))
    const spaced = Math.min((performance.now() - startedAt) * FULL_SCAN_RATIO, poll * LONGEST_FULL_SCAN_PAUSE)
    this.#goesAlong = spaced <= poll
    if (this.#nextFullScan > 0) this.#nextFullScan = Math.max(this.#nextFullScan, startedAt + spaced)
  }

  async #pollDue(): Promise<void> {
    const { database, timetable } = this.#options
    const span = this.#lateness.span(performance.now())
    const lanes = timetable.quietLanes.map((lane) => ({ key: lane.key, cursor: lane.before(span) }))
    if (lanes.length === 0) return
    const startedAt = performance.now()
    for (const head of await look(database, lanes)) {
      this.#noteLateness(head)
      timetable.sight(head, head.performIn)
    }
    this.#lookCost = performance.now() - startedAt
  }

  #passOn(heads: readonly Head[]): void {
    for (const head of heads) {
      this.#noteLateness(head)
      this.#options.timetable.notice(head, head.performIn)
    }
  }

  #noteLateness(head: Head): void {
    const late = this.#options.timetable.lane(head)?.latenessOf(head.performIn) ?? 0
    if (late > 0) this.#lateness.note(late, performance.now())
  }

  async #lowerFlag(spell: number): Promise<void> {
    if (!this.#flag.isRaised) return
    this.#pause = SHORTEST_PAUSE
    await this.#flag.lower(spell)
  }

  /** The last look before waiting is at everything: what was pushed into a lane yet unknown woke nobody. */
  async #raiseFlag(): Promise<void> {
    this.#pause = FLAG_PAUSE
    await this.#flag.raise()
    await this.#fullScan()
    this.#restPolls = 1
  }
}
