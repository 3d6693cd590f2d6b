import type { Instruments } from '../../instruments.ts'
import type { Round } from '../../store/claim.ts'
import type { Membership } from '../membership/membership.ts'
import type { Claimant, CompletionObserver } from './completer.ts'
import { observed, observedRound } from './observed.ts'
import type { FailedRound } from './outcome.ts'
import type { Tally } from './tally.ts'

/** Counts what was stored, and tells of it. */
export class Observer implements CompletionObserver {
  readonly #instruments: Instruments
  readonly #tally: Tally
  readonly #membership: Membership

  constructor(instruments: Instruments, tally: Tally, membership: Membership) {
    this.#instruments = instruments
    this.#tally = tally
    this.#membership = membership
  }

  holds(processId: number): boolean {
    return this.#membership.holds(processId)
  }

  completed(claimant: Claimant, rounds: readonly Round[]): void {
    const { served, startedAt } = claimant
    this.#tally.add(served.queueId, rounds.length, 0)
    if (!this.#instruments.hears('complete')) return
    const duration = performance.now() - startedAt
    this.#instruments.tell('complete', { ...observed(claimant, rounds), duration })
  }

  failed({ served }: Claimant, { round, thrown, retryIn }: FailedRound): void {
    this.#tally.add(served.queueId, 0, 1)
    const failure = { queue: served.queue.name, round: observedRound(round), error: thrown }
    this.#instruments.tell('fail', { ...failure, retryIn })
    if (retryIn === null) this.#instruments.tell('die', { ...failure, payload: round.payloads[0] })
  }

  refused({ served }: Claimant, round: Round): void {
    this.#instruments.tell('refuse', { queue: served.queue.name, round: observedRound(round) })
  }

  ended(claimant: Claimant, rounds: readonly Round[]): void {
    claimant.release(rounds.length)
  }
}
