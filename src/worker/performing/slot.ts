import { describeError, OptionError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import { show } from '../../options.ts'
import { ignoreRejection } from '../../promises.ts'
import type { Round } from '../../store/claim.ts'
import { Bell } from '../lifecycle/bell.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import type { DueLane } from '../schedule/due-lane.ts'
import type { Lane } from '../schedule/lane.ts'
import type { Scheduler } from '../schedule/scheduler.ts'
import type { Timetable } from '../schedule/timetable.ts'
import type { OnTaken, PerformOther } from './waiting.ts'

/** ms after which a slot checks again whether it may take work: a lease may be renewed at the last moment. */
const UNREADY_PAUSE = 250
/** ms that a slot waits if a scheduler picks none of what is due. */
const DECLINED_PAUSE = 50

export interface SlotOptions {
  readonly index: number
  readonly timetable: Timetable
  readonly scheduler: Scheduler
  readonly logger: Logger
  /** Whether new work may be taken at all. */
  ready(): boolean
  /** Takes a batch of the lane and performs it. `performOther`: what the slot may do while it waits for a claim. */
  serve(lane: Lane, performOther: PerformOther, onTaken: OnTaken): Promise<void>
  onIdle(): void
  /** The scheduler threw, or picked something that it was not given. */
  onFailure(error: unknown): void
}

/** One unit of concurrency. It picks a lane, serves it, and repeats; it sleeps if nothing is due. */
export class Slot implements Service {
  readonly #options: SlotOptions
  readonly #bell = new Bell()
  readonly #loop = new Loop(() => this.#pass(), this.#bell)
  /** Whether the scheduler has failed since its last valid pick. */
  #failing = false
  /** Whether its last count has failed. */
  #miscounts = false

  constructor(options: SlotOptions) {
    this.#options = options
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  /** Resolves when the batch in progress, if any, has ended. */
  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #pass(): Promise<void> {
    const { index, timetable, ready } = this.#options
    if (!ready()) return this.#rest(UNREADY_PAUSE)
    const due = timetable.due(index)
    if (due.length === 0) return this.#rest()
    const pick = this.#pick(due)
    if (!pick) return this.#rest(DECLINED_PAUSE)
    await this.#serve(pick.of)
  }

  async #serve(lane: Lane): Promise<void> {
    const { timetable, serve } = this.#options
    const { served } = lane.shard
    timetable.begins(served)
    let hasTaken = false
    const onTaken = (rounds: readonly Round[]) => {
      hasTaken = true
      this.#took(lane.candidate, rounds)
    }
    await serve(lane, () => this.#performOther(lane), onTaken)
    if (!hasTaken) this.#took(lane.candidate, [])
    timetable.ends(served)
  }

  /** While it waits for a claim of a lane, other slots may serve that queue in its place. */
  async #performOther(awaited: Lane): Promise<boolean> {
    const { index, timetable } = this.#options
    const { served } = awaited.shard
    const due = timetable.due(index)
    const prefetched = due.filter(({ of }) => of.portions.length > 0)
    if (prefetched.length === 0) return false
    const others = due.filter(({ of }) => of.portions.length === 0 && of !== awaited)
    const pick = this.#pick(prefetched, [...others, awaited.candidate])
    if (!pick) return false
    timetable.ends(served)
    await this.#serve(pick.of)
    timetable.begins(served)
    return true
  }

  /**
   * The scheduler may be the user's. If it throws, or picks something that it was not given, it declines. It gets a copy of
   * the list, since it may change it: what it adds was not given.
   */
  #pick(due: readonly DueLane[], others: readonly DueLane[] = []): DueLane | undefined {
    try {
      const pick = this.#options.scheduler.pick([...due], others) ?? undefined
      if (pick === undefined || due.includes(pick)) {
        this.#failing = false
        return pick
      }
      ignoreRejection(pick)
      throw new OptionError(
        `scheduler.pick must return one of the candidates it was given, not a copy, or undefined: not ${show(pick)}`,
      )
    } catch (error) {
      this.#tell(error)
      return undefined
    }
  }

  /** It gets no more of the jobs than it needs, and copies, since it may be the user's. */
  #took(candidate: DueLane, rounds: readonly Round[]): void {
    const { scheduler, logger, onFailure } = this.#options
    if (!scheduler.took) return
    try {
      const result: unknown = scheduler.took(
        candidate,
        rounds.map(({ tenant }) => ({ tenant })),
      )
      ignoreRejection(result)
      this.#miscounts = false
    } catch (error) {
      if (!this.#miscounts)
        logger.error({ error: describeError(error) }, 'the scheduler failed to count jobs')
      this.#miscounts = true
      onFailure(error)
    }
  }

  /** It may fail each time, so only the first failure in a row is logged. */
  #tell(error: unknown): void {
    const { logger, onFailure } = this.#options
    if (!this.#failing)
      logger.error({ error: describeError(error) }, 'the scheduler failed: nothing is taken meanwhile')
    this.#failing = true
    onFailure(error)
  }

  async #rest(pause?: number): Promise<void> {
    const { index, timetable, onIdle } = this.#options
    onIdle()
    await timetable.sleep(index, this.#bell, pause)
  }
}
