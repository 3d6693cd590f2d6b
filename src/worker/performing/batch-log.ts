import { debugs, type Logger } from '../../logger.ts'
import type { Round } from '../../store/claim.ts'
import { hasExpired } from '../../store/left-out.ts'
import type { Leftover } from '../../store/settle.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { Outcome, Settler } from '../settling/outcome.ts'

const KINDS = {
  fail: 'failed',
  die: 'died',
  discard: 'discarded',
  drop: 'dropped',
  snooze: 'snoozed',
} as const

const NONE = {
  completed: 0,
  expired: 0,
  failed: 0,
  died: 0,
  discarded: 0,
  dropped: 0,
  snoozed: 0,
  released: 0,
  crashed: 0,
}

/** Writes a line for each batch, at the level `debug`: how its rounds ended, without what they hold. */
export class BatchLog implements Settler {
  readonly #settler: Settler
  readonly #logger: Logger
  readonly #payloads: number
  readonly #ends = { ...NONE }

  /** Undefined if no one would see the lines. Called before the handler, which may take payloads out. */
  static over(settler: Settler, logger: Logger, rounds: readonly Round[]): BatchLog | undefined {
    return debugs(logger) ? new BatchLog(settler, logger, rounds) : undefined
  }

  private constructor(settler: Settler, logger: Logger, rounds: readonly Round[]) {
    this.#settler = settler
    this.#logger = logger
    this.#payloads = rounds.reduce((sum, { payloads }) => sum + payloads.length, 0)
  }

  settle(claimant: Claimant, outcome: Outcome, uncertain?: boolean): void {
    this.#count(outcome)
    this.#settler.settle(claimant, outcome, uncertain)
  }

  crashed(claimant: Claimant, rounds: readonly Round[]): void {
    this.#ends.crashed += rounds.length
    this.#settler.crashed(claimant, rounds)
  }

  stored(claimant: Claimant, outcome: Outcome, leftovers: readonly Leftover[]): void {
    this.#count(outcome)
    this.#settler.stored(claimant, outcome, leftovers)
  }

  #count({ completed, failed, released }: Outcome): void {
    const expired = completed.filter(hasExpired).length
    this.#ends.completed += completed.length - expired
    this.#ends.expired += expired
    this.#ends.released += released.length
    for (const { end } of failed) this.#ends[KINDS[end]] += 1
  }

  /** Rounds that are performed once more, each by itself, have lines of their own later. */
  write({ served, shard, slot, startedAt }: Claimant, rounds: readonly Round[]): void {
    const duration = Math.round(performance.now() - startedAt)
    const place = { queue: served.queue.name, shard, slot }
    const size = { jobs: rounds.length, payloads: this.#payloads }
    this.#logger.debug({ event: 'batch', ...place, ...size, ...this.#ends, duration }, 'a batch has ended')
  }
}
