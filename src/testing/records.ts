import type { Logger } from '../logger.ts'
import type { Queue } from '../queue.ts'
import type { Round } from '../store/claim.ts'
import { hasExpired } from '../store/left-out.ts'
import { roundOf } from '../store/settle.ts'
import type { Claimant } from '../worker/settling/claimant.ts'
import { deathsOf, tellDeaths } from '../worker/settling/deaths.ts'
import type { FailedRound, Outcome, Settler } from '../worker/settling/outcome.ts'
import { byKind, kindOfSuccess, type Piece } from '../worker/settling/piece.ts'
import type { Drained, FailedRun } from './drain.ts'

/** Rounds of one batch that end in the same way. */
export type Settlement = Pick<Piece, 'kind' | 'claimant' | 'queueId' | 'rounds' | 'failures'>

const NONE: readonly FailedRound[] = []

/** What a drain has done, and what is still to be stored of it. */
export class Records implements Settler {
  readonly #logger: Logger
  readonly #counts = { completed: 0, snoozed: 0, dropped: 0, expired: 0 }
  readonly #failed: FailedRun[] = []
  #unstored: Settlement[] = []
  #fresh: FailedRun[] = []
  #dying: FailedRound[] = []

  constructor(logger: Logger) {
    this.#logger = logger
  }

  get drained(): Drained {
    return { ...this.#counts, failed: this.#failed }
  }

  settle(claimant: Claimant, outcome: Outcome): void {
    this.#note(claimant, outcome)
    const { completed, failed, released } = outcome
    this.#keep(claimant, kindOfSuccess(completed), completed)
    this.#keep(claimant, 'release', released)
    for (const [kind, failures] of byKind(failed)) this.#keep(claimant, kind, failures.map(roundOf), failures)
  }

  crashed(claimant: Claimant, rounds: readonly Round[]): void {
    this.#keep(claimant, 'crash', rounds)
  }

  stored(claimant: Claimant, outcome: Outcome): void {
    this.#note(claimant, outcome)
  }

  takeUnstored(): Settlement[] {
    const unstored = this.#unstored
    this.#unstored = []
    return unstored
  }

  /** The failures since the last call. */
  takeFailed(): FailedRun[] {
    const failed = this.#fresh
    this.#fresh = []
    return failed
  }

  /** To be called once they are stored. */
  async tellDeaths(queue: Queue): Promise<void> {
    const dying = this.#dying
    this.#dying = []
    if (!queue.onDeath) return
    for (const { round, end, thrown } of dying)
      await tellDeaths(queue, deathsOf(round, end, thrown), this.#logger)
  }

  #note({ served }: Claimant, { completed, failed }: Outcome): void {
    this.#counts.completed += completed.filter((round) => !hasExpired(round)).length
    this.#counts.expired += completed.reduce((sum, { expired }) => sum + expired, 0)
    for (const one of failed) {
      if (one.end === 'drop' || one.end === 'discard') this.#counts.expired += one.round.expired
      if (one.end === 'snooze') this.#counts.snoozed += 1
      else if (one.end === 'drop') this.#counts.dropped += 1
      else {
        const run = { queue: served.queue.name, id: one.round.id, error: one.thrown, retryIn: one.retryIn }
        this.#failed.push(run)
        this.#fresh.push(run)
        if (one.end !== 'fail') this.#dying.push(one)
      }
    }
  }

  #keep(
    claimant: Claimant,
    kind: Settlement['kind'],
    rounds: readonly Round[],
    failures: readonly FailedRound[] = NONE,
  ): void {
    if (rounds.length === 0) return
    const { queueId } = claimant.served
    this.#unstored.push({ claimant, queueId, kind, rounds, failures })
  }
}
