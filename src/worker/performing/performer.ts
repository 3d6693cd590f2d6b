import type { Round } from '../../store/claim.ts'
import type { Membership } from '../membership/membership.ts'
import type { Refusals } from '../schedule/admission.ts'
import type { Lane } from '../schedule/lane.ts'
import type { Timetable } from '../schedule/timetable.ts'
import { type Claimant, claimantOf } from '../settling/claimant.ts'
import { type Aftermath, performBatch } from './batch.ts'
import { BatchLog } from './batch-log.ts'
import type { InFlight, InFlightBatch } from './in-flight.ts'
import { Loading, type LoadingOptions } from './loading.ts'
import { Abort } from './perform.ts'
import type { BatchSettings } from './transaction.ts'

export interface PerformerOptions extends Omit<LoadingOptions, 'onRefused'>, BatchSettings {
  readonly inFlight: InFlight
  readonly membership: Membership
  readonly refusals: Refusals
  readonly timetable: Timetable
  /** Whether rounds of the lane that were claimed under the membership `processId` may begin. */
  mayBegin(lane: Lane, processId: number): boolean
  /** Releases rounds that have not begun. */
  release(lane: Lane, claimant: Claimant, rounds: readonly Round[]): void
}

/** Performs batches: loads payloads that did not come with the claim, and tells the schedule what came of it. */
export class Performer {
  readonly #options: PerformerOptions
  readonly #loading: Loading

  constructor(options: PerformerOptions) {
    this.#options = options
    this.#loading = new Loading({ ...options, onRefused: (claimant) => this.#refused(claimant) })
  }

  /** Performs rounds that may begin. A round whose payloads are still to be loaded comes alone. */
  async begin(lane: Lane, claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    if (rounds[0]!.toLoad) await this.#loadAndPerform(lane, claimant, rounds[0]!)
    else await this.#perform(lane, claimant, rounds)
  }

  async #loadAndPerform(lane: Lane, claimant: Claimant, round: Round): Promise<void> {
    const loaded = await this.#load(lane, claimant, round)
    if (loaded) await this.#performOrRelease(lane, claimantOf(lane, claimant, claimant.slot), [loaded])
  }

  #load(lane: Lane, claimant: Claimant, round: Round): Promise<Round | undefined> {
    return this.#loading.load(claimant, round, () => this.#options.mayBegin(lane, claimant.processId))
  }

  async #performOrRelease(lane: Lane, claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const { mayBegin, release } = this.#options
    if (mayBegin(lane, claimant.processId)) await this.#perform(lane, claimant, rounds)
    else release(lane, claimant, rounds)
  }

  async #perform(lane: Lane, claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const { inFlight, completer, membership, describe, logger } = this.#options
    const batch: InFlightBatch = {
      queue: claimant.served.queue,
      rounds,
      claimant,
      abort: new Abort(),
      describe,
      holdsLease: () => membership.holds(claimant.processId),
    }
    const log = BatchLog.over(completer, logger, rounds)
    inFlight.add(batch)
    let aftermath: Aftermath
    try {
      aftermath = await performBatch(this.#options, log ?? completer, claimant, batch)
    } finally {
      inFlight.remove(batch)
    }
    log?.write(claimant, rounds)
    if (aftermath.unbegun) this.#refused(claimant)
    else this.#admitted(claimant)
    for (const part of aftermath.parts) await this.#performAgain(lane, claimant, part)
  }

  /** No connection could be had for the batch. */
  #refused({ served: { queueId }, startedAt }: Claimant): void {
    const { refusals, timetable } = this.#options
    if (refusals.refuse(queueId, startedAt)) timetable.admissionChanged()
  }

  /** Only a transactional batch shows that connections can be had. */
  #admitted({ served: { queueId, queue } }: Claimant): void {
    const { refusals, timetable } = this.#options
    if (queue.transactional && refusals.admit(queueId)) timetable.admissionChanged()
  }

  /**
   * Performs rounds whose joint transaction could not be committed. Their payloads are loaded anew, since the handler may have
   * changed the ones it got.
   */
  async #performAgain(lane: Lane, claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const loaded = await Promise.all(rounds.map((round) => this.#load(lane, claimant, round)))
    // Those that could not be loaded have ended. If one came back as it was, none may begin.
    const left = loaded.filter((round) => round !== undefined)
    if (left.length === 0) return
    const again = claimantOf(lane, claimant, claimant.slot)
    if (left.some((round) => rounds.includes(round))) this.#options.release(lane, again, left)
    else await this.#performOrRelease(lane, again, left)
  }
}
