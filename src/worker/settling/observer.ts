import type { Instruments } from '../../instruments.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import type { Round } from '../../store/claim.ts'
import type { Head } from '../../store/head.ts'
import { hasExpired } from '../../store/left-out.ts'
import { tellHeads } from '../../store/wake.ts'
import type { Membership } from '../membership/membership.ts'
import type { Timetable } from '../schedule/timetable.ts'
import type { Claimant } from './claimant.ts'
import type { CompletionObserver } from './completer.ts'
import { deathsOf, tellDeaths } from './deaths.ts'
import { observed, observedRound } from './observed.ts'
import type { FailedRound } from './outcome.ts'
import type { Tally } from './tally.ts'

export interface ObserverOptions {
  readonly database: Database
  readonly logger: Logger
  readonly timetable: Timetable
  readonly instruments: Instruments
  readonly tally: Tally
  readonly membership: Membership
}

/** Counts what was stored, and reports it. */
export class Observer implements CompletionObserver {
  readonly #options: ObserverOptions

  constructor(options: ObserverOptions) {
    this.#options = options
  }

  holds(processId: number): boolean {
    return this.#options.membership.holds(processId)
  }

  completed(claimant: Claimant, rounds: readonly Round[]): void {
    const { served, startedAt } = claimant
    const { tally, instruments } = this.#options
    this.#expired(claimant, rounds)
    const performed = rounds.some(hasExpired) ? rounds.filter((round) => !hasExpired(round)) : rounds
    if (performed.length === 0) return
    tally.add(served.queueId, performed.length, 0)
    if (!instruments.hears('complete')) return
    const duration = performance.now() - startedAt
    instruments.tell('complete', { duration, ...observed(claimant, performed) })
  }

  /** What of rounds had expired is gone with them. Of a round that failed it stays, and counts when it goes. */
  #expired({ served }: Claimant, rounds: readonly Round[]): void {
    const payloads = rounds.reduce((sum, { expired }) => sum + expired, 0)
    if (payloads === 0) return
    this.#options.tally.add(served.queueId, 0, 0, payloads)
    this.#options.instruments.tell('expire', { queue: served.queue.name, payloads })
  }

  failed(claimant: Claimant, { round, thrown, end, retryIn }: FailedRound): Promise<void> | undefined {
    const { served } = claimant
    const { instruments, tally, logger } = this.#options
    const told = { queue: served.queue.name, round: observedRound(round), error: thrown }
    if (end === 'snooze') {
      instruments.tell('snooze', { ...told, seconds: retryIn! })
      return undefined
    }
    const dropped = end === 'drop'
    if (dropped || end === 'discard') this.#expired(claimant, [round])
    tally.add(served.queueId, dropped ? 1 : 0, dropped ? 0 : 1)
    if (dropped) instruments.tell('drop', told)
    else instruments.tell('fail', { ...told, retryIn })
    const deaths = deathsOf(round, end, thrown)
    for (const { payload } of deaths) instruments.tell('die', { ...told, payload })
    return deaths.length > 0 && served.queue.onDeath ? tellDeaths(served.queue, deaths, logger) : undefined
  }

  refused({ served }: Claimant, round: Round): void {
    this.#options.instruments.tell('refuse', { queue: served.queue.name, round: observedRound(round) })
  }

  ended(claimant: Claimant, rounds: readonly Round[]): void {
    claimant.release(rounds.length)
  }

  /**
   * The jobs may be due before the cursor. Or their shard may belong to another process by now: that one is told, or else
   * finds them at a full look.
   */
  async waitAgain(heads: readonly Head[]): Promise<void> {
    const { database, logger, timetable } = this.#options
    const others: Head[] = []
    for (const head of heads) {
      if (timetable.get(head.queueId, head.shard)) timetable.notice(head, head.performIn)
      else others.push(head)
    }
    if (others.length === 0) return
    await tellHeads(database, others).catch((error: Error) =>
      logger.debug({ error: error.message }, 'telling other workers of jobs that wait again failed'),
    )
  }
}
