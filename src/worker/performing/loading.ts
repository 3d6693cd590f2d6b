import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { isConnectionFailure, wasNotSent } from '../../postgres/failure.ts'
import type { Round } from '../../store/claim.ts'
import { loadPayloads } from '../../store/load.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { Completer } from '../settling/completer.ts'
import type { Describe } from './description.ts'
import { failure } from './ending.ts'

/** More loads at once would share a slow link, and none would arrive in time. */
export const LOADS_AT_ONCE = 2

export interface LoadingOptions {
  readonly database: Database
  readonly completer: Completer
  readonly describe: Describe
  readonly logger: Logger
  onFailure(error: unknown): void
  /** The answer to a call was lost. */
  onLostAnswer(): Promise<void>
  /** No connection could be had for a round, so it waits again. */
  onRefused(claimant: Claimant): void
}

/** Loads payloads that were too large to come with their claim, or that a handler may have changed. */
export class Loading {
  readonly #options: LoadingOptions
  readonly #waiting: (() => void)[] = []
  #loads = 0

  constructor(options: LoadingOptions) {
    this.#options = options
  }

  /**
   * Returns the round as it may begin; unchanged if `mayBegin` has become false; undefined if it has ended otherwise. A
   * round that crashed too often is returned unchanged too: loading it may be what it died of.
   */
  async load(claimant: Claimant, round: Round, mayBegin: () => boolean): Promise<Round | undefined> {
    const { queue, queueId } = claimant.served
    if (round.crashes >= queue.maxCrashes) return round
    while (this.#loads >= LOADS_AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#loads += 1
    try {
      if (!mayBegin()) return round
      const { database, completer } = this.#options
      const loaded = await loadPayloads(database, claimant.processId, queueId, round, queue)
      // Releasing it will show that the claim is lost.
      if (!loaded) void completer.release(claimant, [round])
      return loaded
    } catch (error) {
      await this.#failed(claimant, round, error)
      return undefined
    } finally {
      this.#loads -= 1
      this.#waiting.shift()?.()
    }
  }

  /**
   * If the answer was lost, it may be lost each time: its bytes may be too many for the link. If the round were released as
   * if nothing had happened, it would be claimed and loaded again without end. So it stays claimed by the former membership
   * of this process, and is freed with it. To the process that claims it next, this was a crash, which is counted (R10).
   * If the call was not sent, no round is to blame for it. Any other error may come each time too: it is a failure like a
   * handler's.
   */
  async #failed(claimant: Claimant, round: Round, error: unknown): Promise<void> {
    const { completer, describe, logger, onFailure, onLostAnswer, onRefused } = this.#options
    const { queue } = claimant.served
    logger.warn(
      { error: (error as Error).message, queue: queue.name, id: round.id },
      'loading payloads failed',
    )
    onFailure(error)
    if (wasNotSent(error)) {
      void completer.release(claimant, [round])
      onRefused(claimant)
      return
    }
    if (!isConnectionFailure(error)) {
      const failed = [failure(queue, round, error, describe)]
      completer.settle(claimant, { completed: [], failed, released: [] })
      return
    }
    claimant.release()
    await onLostAnswer()
  }
}
