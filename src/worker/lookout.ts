import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { type Head, look, survey } from '../store/head.ts'
import type { Message } from '../store/wake.ts'
import type { Surveys } from './dealer.ts'
import type { ServedQueues } from './served-queues.ts'
import { Loop, type Service } from './service.ts'
import type { ShardLocks } from './shard-locks.ts'
import type { ShardRef } from './splitter.ts'
import type { Timetable } from './timetable.ts'

/** ms from one cheap look to the next while there is traffic; doubled each time nothing was found. */
const SHORTEST_PAUSE = 2
/** Nothing found for so long: from now on producers are asked to send wake-ups. */
const CALM_PAUSE = 32
/** Wake-ups in CROWD_PERIOD ms from which on polling costs everybody less than being woken. */
const CROWD = 25
const CROWD_PERIOD = 100
/** ms that traffic goes on without wake-ups: after a crowd of them, and where slots were at work. */
const CROWD_SPELL = 5_000
const BUSY_SPELL = 1_000
/** A cheap look may take one part in so many of the time. */
const LOOK_RATIO = 20
/** It starts at the cursors: where it is slow, the machine is busy, and waiting longer makes no difference. */
const LONGEST_LOOK_PAUSE = 50
/** A full look may take one part in so many of the time. */
const SURVEY_RATIO = 25
/** Poll intervals from one full look to the next at most: dead processes' jobs and late commits wait for it. */
const LONGEST_SURVEY_PAUSE = 5
/**
 * And at most where nothing has happened for long, and wake-ups are heard: twice as many each time. By default one more than
 * there are between the comparisons of a process in a crowd, which bring the look along.
 */
const LONGEST_REST = 6

export interface LookoutOptions {
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
  /** Whether a slot is free to take what is found. */
  idle(): boolean
}

/**
 * Finds out when jobs are due. It raises the flag that makes producers send wake-ups, looks once more, since a push
 * that saw no flag may have committed in between, and then ever more rarely. Where wake-ups come in crowds, or nobody
 * could take what they tell of, it lowers the flag, and looks every few milliseconds instead, until it stays quiet or a
 * while has passed. The full look, which finds what cursors have passed, comes at every poll interval, or more rarely
 * where it is slow. A worker at rest does without the cheap one, and has the full one brought along by comparisons (see
 * Dealer): whoever idles costs next to nothing.
 */
export class Lookout implements Service, Surveys {
  readonly #options: LookoutOptions
  readonly #loop = new Loop(() => this.#pass())
  #pause = SHORTEST_PAUSE
  #nextSurvey = 0
  #notBefore = 0
  /** ms that the last cheap look took. */
  #lookCost = 0
  /** Whether full looks may go along with comparisons: not where they take long, or fail, since those must not. */
  #goesAlong = false
  /** Poll intervals until the next full look of its own, at rest. */
  #restPolls = 1
  #soon: NodeJS.Timeout | undefined
  #flagRaised = false
  /** The queues it was raised for. */
  #flagged: readonly number[] = []
  #flagNotBefore = 0
  #couldTake = true
  #wakeUps = 0
  #countingSince = 0

  constructor(options: LookoutOptions) {
    this.#options = options
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
    if (this.#flagRaised) return
    this.#pause = SHORTEST_PAUSE
    clearTimeout(this.#soon)
    this.#soon = setTimeout(() => this.#loop.alarm.ring(), Math.max(0, this.#notBefore - performance.now()))
  }

  /** Shards came, or wake-ups may have been missed: look at everything now. */
  surveySoon(): void {
    this.#nextSurvey = 0
    this.#loop.alarm.ring()
  }

  /**
   * A comparison begins: it brings a full look along, if one is due. Whoever asks for one from now on gets another, since this
   * one may have been answered before. Where one was asked for already, the next pass makes it.
   */
  surveyAlong(): ShardRef[] {
    const now = performance.now()
    if (!this.#rests || !this.#goesAlong || this.#nextSurvey === 0 || now < this.#nextSurvey) return []
    this.#nextSurvey = now + this.#options.poll
    this.#restLonger()
    return this.#refs
  }

  /** It has ended. `took`: ms that it took with the comparison. */
  surveyAnswered(heads: readonly Head[], took: number): void {
    this.#goesAlong = took * SURVEY_RATIO <= this.#options.poll
    this.#passOn(heads)
  }

  /** It has failed: another one, by itself. */
  surveyFailed(): void {
    this.#goesAlong = false
    this.surveySoon()
  }

  /** The connection that held the flag broke. */
  flagLost(): void {
    this.#flagRaised = false
    this.#pause = SHORTEST_PAUSE
  }

  /** Somebody named lanes with earlier jobs, or spoke of changes that only a full look shows. */
  hear(message: Message): void {
    if (message.kind !== 'heads' || message.heads.length === 0) {
      this.surveySoon()
      return
    }
    const { queueId } = message
    this.#passOn(message.heads.map((head) => ({ queueId, ...head })))
    this.#countWakeUp()
  }

  /** Where wake-ups come in crowds, polling is cheaper for all. */
  #countWakeUp(): void {
    if (!this.#flagRaised) return
    const now = performance.now()
    if (now - this.#countingSince > CROWD_PERIOD) {
      this.#countingSince = now
      this.#wakeUps = 0
    }
    this.#wakeUps += 1
    if (this.#wakeUps >= CROWD) this.#loop.alarm.ring()
  }

  async #pass(): Promise<void> {
    try {
      if (this.#wakeUps >= CROWD) await this.#lowerFlag(CROWD_SPELL)
      if (this.#isFlagOfOthers()) await this.#lowerFlag(0)
      const found = await this.#search()
      const canTake = this.#canTake()
      this.#pause = this.#nextPause(found, canTake)
      if (canTake && this.#isTimeForFlag()) await this.#setFlag(true)
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
    // Whoever asked for a survey while this pass was under way rang for nobody.
    if (!this.#loop.stopping && this.#nextSurvey > 0) await this.#loop.alarm.wait(Math.max(this.#pause, rest))
  }

  /** A slot that becomes idle rings. */
  #nextPause(found: boolean, canTake: boolean): number {
    if (!canTake) return CALM_PAUSE
    return found && !this.#flagRaised ? SHORTEST_PAUSE : Math.min(this.#pause * 2, this.#options.poll)
  }

  #isTimeForFlag(): boolean {
    return this.#pause > CALM_PAUSE || performance.now() > this.#flagNotBefore
  }

  /** Looks, where that can help, and says whether anything is due that a slot could take. */
  async #search(): Promise<boolean> {
    if (this.#isTimeForSurvey()) await this.#survey()
    else if (this.#canTake() && !this.#rests) await this.#look()
    return this.#options.timetable.untilNext() === 0
  }

  /** The flag is up and wake-ups are heard, and that for a while. */
  get #rests(): boolean {
    return this.#flagRaised && this.#pause >= this.#options.poll && this.#options.hears()
  }

  #isTimeForSurvey(): boolean {
    const longer = this.#rests && this.#nextSurvey > 0 ? (this.#restPolls - 1) * this.#options.poll : 0
    return performance.now() >= this.#nextSurvey + longer
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

  #canTake(): boolean {
    return this.#options.idle() && this.#options.timetable.hasFreeShard
  }

  async #survey(): Promise<void> {
    const { database, poll, processId } = this.#options
    const startedAt = performance.now()
    this.#nextSurvey = startedAt + poll
    this.#goesAlong = false
    this.#restLonger()
    const shards = this.#refs
    if (shards.length > 0) this.#passOn(await survey(database, processId(), shards))
    const spaced = Math.min((performance.now() - startedAt) * SURVEY_RATIO, poll * LONGEST_SURVEY_PAUSE)
    this.#goesAlong = spaced <= poll
    if (this.#nextSurvey > 0) this.#nextSurvey = Math.max(this.#nextSurvey, startedAt + spaced)
  }

  async #look(): Promise<void> {
    const { database, timetable } = this.#options
    const lanes = [...timetable.shards]
      .filter((shard) => !shard.busy)
      .flatMap((shard) => [...shard.lanes.values()])
    if (lanes.length === 0) return
    const startedAt = performance.now()
    this.#passOn(await look(database, lanes))
    this.#lookCost = performance.now() - startedAt
  }

  #passOn(heads: readonly Head[]): void {
    for (const head of heads) this.#options.timetable.notice(head, head.performIn)
  }

  /** A queue was made again: its producers look for a flag under another number. */
  #isFlagOfOthers(): boolean {
    return this.#flagRaised && !isDeepStrictEqual(this.#flagged, this.#options.queues.ids)
  }

  /** For so many ms, unless it becomes quiet. */
  #lowerFlag(spell: number): Promise<void> {
    if (this.#flagRaised) this.#flagNotBefore = performance.now() + spell
    return this.#setFlag(false)
  }

  /** The last look before waiting is at everything: what was pushed into a lane yet unknown woke nobody. */
  async #setFlag(raised: boolean): Promise<void> {
    if (raised === this.#flagRaised) return
    const { locks, queues } = this.#options
    this.#flagRaised = raised
    this.#pause = raised ? CALM_PAUSE : SHORTEST_PAUSE
    this.#wakeUps = 0
    try {
      if (raised) this.#flagged = queues.ids
      await (raised ? locks.raiseFlag(this.#flagged) : locks.lowerFlag(this.#flagged))
    } catch (error) {
      // With its connection the flag is gone.
      this.#flagRaised = false
      throw error
    }
    if (!raised) return
    await this.#survey()
    this.#restPolls = 1
  }
}
