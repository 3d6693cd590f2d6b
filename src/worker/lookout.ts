import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { type Head, look, survey } from '../store/head.ts'
import type { Message } from '../store/wake.ts'
import { Loop, type Service } from './service.ts'
import type { ShardLocks } from './shard-locks.ts'
import type { ServedQueue, Timetable } from './timetable.ts'

/** ms from one cheap look to the next while there is traffic; doubled each time nothing was found. */
const SHORTEST_PAUSE = 2
/** Nothing found for so long: from now on producers are asked to send wake-ups. */
const CALM_PAUSE = 32
/** Wake-ups in CROWD_PERIOD ms above which polling costs everybody less than being woken. */
const CROWD = 25
const CROWD_PERIOD = 100
/** Looking may take one part in so many of the time. */
const COST_RATIO = 25
/** A cheap look starts at the cursors: where it is slow, the machine is busy, and waiting longer makes no difference. */
const LONGEST_LOOK_PAUSE = 50
/** Poll intervals from one full look to the next at most: dead processes' jobs and late commits wait for it. */
const LONGEST_SURVEY_PAUSE = 5

export interface LookoutOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly locks: ShardLocks
  readonly logger: Logger
  readonly queues: readonly ServedQueue[]
  /** ms between full looks, and between cheap ones while waiting to be woken. */
  readonly poll: number
  processId(): number
  /** Whether a slot is free to take what is found. */
  idle(): boolean
}

/**
 * Finds out when jobs are due. While there is traffic it looks every few milliseconds; when it stays quiet it
 * raises the flag that makes producers send wake-ups, looks once more, since a push that saw no flag may have
 * committed in between, and then ever more rarely. The full look, which finds what cursors have passed, comes
 * at every poll interval, or more rarely where it is slow.
 */
export class Lookout implements Service {
  readonly #options: LookoutOptions
  readonly #loop = new Loop(() => this.#pass())
  #pause = SHORTEST_PAUSE
  #nextSurvey = 0
  #notBefore = 0
  #soon: NodeJS.Timeout | undefined
  #flagRaised = false
  #wakeUps = 0
  #crowdSince = 0

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
    const now = performance.now()
    if (now - this.#crowdSince > CROWD_PERIOD) {
      this.#crowdSince = now
      this.#wakeUps = 0
    }
    this.#wakeUps += 1
    if (this.#wakeUps < CROWD || !this.#flagRaised) return
    this.#pause = SHORTEST_PAUSE
    this.#loop.alarm.ring()
  }

  async #pass(): Promise<void> {
    const startedAt = performance.now()
    try {
      const found = await this.#search(startedAt)
      this.#pause = found ? SHORTEST_PAUSE : Math.min(this.#pause * 2, this.#options.poll)
      // Who can take nothing needs no wake-ups.
      if (!this.#canTake()) this.#pause = CALM_PAUSE
      await this.#setFlag(this.#pause > CALM_PAUSE)
    } catch (error) {
      this.#options.logger.warn({ error: (error as Error).message }, 'looking for due jobs failed')
      this.#pause = this.#options.poll
    }
    const rest = affordable(startedAt)
    this.#notBefore = performance.now() + rest
    // Whoever asked for a survey while this pass was under way rang for nobody.
    if (!this.#loop.stopping && this.#nextSurvey > 0)
      await this.#loop.alarm.wait(Math.max(this.#pause, rest))
  }

  /** Looks, where that can help, and says whether anything is due that a slot could take. */
  async #search(startedAt: number): Promise<boolean> {
    const { timetable } = this.#options
    if (startedAt >= this.#nextSurvey) await this.#survey(startedAt)
    else if (this.#canTake()) await this.#look()
    return timetable.untilNext() === 0
  }

  #canTake(): boolean {
    return this.#options.idle() && this.#options.timetable.hasFreeShard
  }

  async #survey(startedAt: number): Promise<void> {
    const { database, timetable, poll } = this.#options
    this.#nextSurvey = startedAt + poll
    const shards = [...timetable.shards].map(({ served, shard }) => ({ queueId: served.queueId, shard }))
    if (shards.length > 0) this.#passOn(await survey(database, this.#options.processId(), shards))
    const spaced = Math.min((performance.now() - startedAt) * COST_RATIO, poll * LONGEST_SURVEY_PAUSE)
    if (this.#nextSurvey > 0) this.#nextSurvey = Math.max(this.#nextSurvey, startedAt + spaced)
  }

  async #look(): Promise<void> {
    const { database, timetable } = this.#options
    const lanes = [...timetable.shards]
      .filter((shard) => !shard.busy)
      .flatMap((shard) => [...shard.lanes.values()])
    if (lanes.length > 0) this.#passOn(await look(database, lanes))
  }

  #passOn(heads: readonly Head[]): void {
    for (const head of heads) this.#options.timetable.notice(head, head.performIn)
  }

  /** The last look before waiting is at everything: what was pushed into a lane yet unknown woke nobody. */
  async #setFlag(raised: boolean): Promise<void> {
    if (raised === this.#flagRaised) return
    const { locks, queues } = this.#options
    this.#flagRaised = raised
    try {
      for (const { queueId } of queues) await (raised ? locks.raiseFlag(queueId) : locks.lowerFlag(queueId))
    } catch (error) {
      // With its connection the flag is gone.
      this.#flagRaised = false
      throw error
    }
    if (raised) await this.#survey(performance.now())
  }
}

/** ms to the next cheap look after one that began at `startedAt`. */
function affordable(startedAt: number): number {
  const cost = (performance.now() - startedAt) * COST_RATIO
  return Math.min(Math.max(cost, SHORTEST_PAUSE), LONGEST_LOOK_PAUSE)
}
