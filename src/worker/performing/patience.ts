import type { Instruments } from '../../instruments.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import type { Round } from '../../store/claim.ts'
import { claimWaiting } from '../../store/claim-waiting.ts'
import { patiently } from '../../store/patience.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import type { Membership } from '../membership/membership.ts'
import type { Lane } from '../schedule/lane.ts'
import { Portion } from '../schedule/portion.ts'
import type { Timetable } from '../schedule/timetable.ts'
import { claimOf, observedClaim, observedRound } from '../settling/observed.ts'

/** Longest first wait for a row, in ms; doubled each time. */
const FIRST_WAIT = 50
/** ms between checks whether claimed jobs may still begin. */
const CHECK = 50

export interface PatienceOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly membership: Membership
  readonly instruments: Instruments
  readonly logger: Logger
  /** Longest wait for a row, in ms. */
  readonly lockTimeout: number
  /** Whether jobs of the lane that were claimed under the membership `processId` may begin. */
  mayBegin(lane: Lane, processId: number): boolean
  /** Releases what has not begun of a portion. */
  releasePortion(lane: Lane, portion: Portion): void
  /** The answer to a claim was lost. */
  onLostAnswer(): Promise<void>
}

/** A job, due at `performIn`, that claims have passed over, and how often we have waited for it. */
interface Overdue {
  readonly lane: Lane
  readonly performIn: number
  waits: number
}

/**
 * Claims jobs that all other claims pass over because they are pushed without pause. It waits for the row, one row at a
 * time, while slots go on. The job it claims is the next batch of its lane, and begins when a slot takes that lane.
 */
export class Patience implements Service {
  readonly #options: PatienceOptions
  readonly #loop = new Loop(() => this.#pass())
  #overdue: Overdue[] = []
  /** Claimed portions that have not begun, and their lanes. */
  readonly #waiting = new Map<Portion, Lane>()

  constructor(options: PatienceOptions) {
    this.#options = options
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  /** Releases what has not begun. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    const { releasePortion } = this.#options
    for (const [portion, lane] of this.#waiting) releasePortion(lane, portion)
  }

  waitFor(lane: Lane, performIn: number): void {
    if (this.#overdue.some((one) => one.lane === lane && one.performIn === performIn)) return
    this.#overdue.push({ lane, performIn, waits: 0 })
    this.#loop.alarm.ring()
  }

  async #pass(): Promise<void> {
    const { mayBegin, releasePortion } = this.#options
    for (const [portion, lane] of this.#waiting) {
      if (!mayBegin(lane, portion.retention.processId)) releasePortion(lane, portion)
      if (portion.isEmpty) this.#waiting.delete(portion)
    }
    const overdue = this.#next()
    if (overdue) await this.#claim(overdue)
    else await this.#loop.alarm.wait(this.#waiting.size > 0 ? CHECK : undefined)
  }

  /** The job waited for least often, so that none queues up behind rows that stay locked. */
  #next(): Overdue | undefined {
    const { membership, mayBegin } = this.#options
    this.#overdue = this.#overdue.filter(({ lane }) => mayBegin(lane, membership.processId))
    const served = new Set(this.#waiting.values())
    return this.#overdue.filter(({ lane }) => !served.has(lane)).sort((a, b) => a.waits - b.waits)[0]
  }

  async #claim(overdue: Overdue): Promise<void> {
    const { membership, instruments, timetable, logger, onLostAnswer } = this.#options
    const { lane } = overdue
    const call = membership.retain()
    const { processId } = call
    try {
      const rounds = await this.#ask(overdue, processId)
      if (!rounds) return
      this.#forget(overdue)
      if (rounds.length === 0) return
      const queue = lane.shard.served.queue.name
      for (const round of rounds)
        if (round.rescued) instruments.tell('rescue', { queue, round: observedRound(round) })
      const retention = membership.retain(rounds.length, processId)
      const portion = new Portion(retention, rounds, 1, Number.POSITIVE_INFINITY)
      this.#waiting.set(portion, lane)
      lane.bringFirst(portion)
      timetable.file(lane)
    } catch (error) {
      // The job is still due, and will be found again.
      this.#forget(overdue)
      logger.warn(
        { event: 'claiming', error: (error as Error).message },
        'claiming a job whose row is locked failed',
      )
      if (isConnectionFailure(error)) await onLostAnswer()
    } finally {
      call.release()
    }
  }

  /** Resolves to undefined if its row could not be locked in time. */
  #ask(overdue: Overdue, processId: number): Promise<readonly Round[] | undefined> {
    const { database, lockTimeout, instruments } = this.#options
    const { lane, performIn } = overdue
    const { maxPayloads, maxBytes } = lane.shard.served.queue
    const timeout = Math.min(FIRST_WAIT * 2 ** overdue.waits, lockTimeout)
    overdue.waits += 1
    const passed = { key: lane.key, performIn, maxPayloads, maxBytes }
    const claim = () => patiently(database, timeout, (tx) => claimWaiting(database, tx, processId, passed))
    return instruments.watch('claim', claimOf(lane, processId, 1), claim, (rounds = []) =>
      observedClaim({ rounds }),
    )
  }

  #forget(overdue: Overdue): void {
    this.#overdue = this.#overdue.filter((one) => one !== overdue)
  }
}
