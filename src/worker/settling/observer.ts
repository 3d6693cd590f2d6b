import type { Round } from '../../store/claim.ts'
import type { WorkerEmitter } from '../events.ts'
import type { Membership } from '../membership/membership.ts'
import type { Claimant, CompletionObserver } from './completer.ts'
import type { FailedRound } from './outcome.ts'
import type { Tally } from './tally.ts'

/** Turns what was stored into events and counts. */
export class Observer implements CompletionObserver {
  readonly #events: WorkerEmitter
  readonly #tally: Tally
  readonly #membership: Membership

  constructor(events: WorkerEmitter, tally: Tally, membership: Membership) {
    this.#events = events
    this.#tally = tally
    this.#membership = membership
  }

  holds(processId: number): boolean {
    return this.#membership.holds(processId)
  }

  completed({ served, shard, slot, startedAt }: Claimant, rounds: readonly Round[]): void {
    this.#tally.add(served.queueId, rounds.length, 0)
    // Nobody pays for news that nobody hears.
    if (this.#events.listenerCount('completed') === 0) return
    const ids = rounds.map(({ id }) => id)
    this.#events.emit('completed', {
      queue: served.queue.name,
      shard,
      slot,
      ids,
      duration: performance.now() - startedAt,
    })
  }

  failed({ served }: Claimant, { round, thrown, retryIn }: FailedRound): void {
    this.#tally.add(served.queueId, 0, 1)
    const queue = served.queue.name
    const { id } = round
    this.#events.emit('failed', { queue, id, error: thrown, retryCount: round.retryCount + 1, retryIn })
    if (retryIn === null) this.#events.emit('died', { queue, id, payload: round.payloads[0], error: thrown })
  }

  refused({ served }: Claimant, { id }: Round): void {
    this.#events.emit('refused', { queue: served.queue.name, id })
  }

  ended(claimant: Claimant, rounds: readonly Round[]): void {
    claimant.release(rounds.length)
  }
}
