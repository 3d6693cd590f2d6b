import { Bell } from '../lifecycle/bell.ts'
import type { HeldRounds } from '../membership/release-now.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { Performance } from './perform.ts'

/** What a slot is doing. */
export interface SlotReport {
  readonly slot: number
  readonly queue: string
  readonly shard: number
  readonly ids: readonly string[]
  readonly since: Date
}

/** A batch in progress. */
export interface InFlightBatch extends Performance {
  readonly claimant: Claimant
}

/** The batches in progress in this process. */
export class InFlight {
  readonly #batches = new Set<InFlightBatch>()
  readonly #ended = new Bell()
  readonly #onChange: (count: number) => void

  constructor(onChange: (count: number) => void) {
    this.#onChange = onChange
  }

  get count(): number {
    return this.#batches.size
  }

  add(batch: InFlightBatch): void {
    this.#batches.add(batch)
    this.#onChange(this.count)
  }

  remove(batch: InFlightBatch): void {
    this.#batches.delete(batch)
    this.#onChange(this.count)
    if (this.count === 0) this.#ended.ring()
  }

  abortAll(reason: Error): void {
    for (const { abort } of this.#batches) abort.abort(reason)
  }

  /** Waits until no batch is in progress, for `timeout` ms at most. Resolves to whether none is. */
  async none(timeout?: number): Promise<boolean> {
    if (this.count > 0) await this.#ended.wait(timeout)
    return this.count === 0
  }

  report(): SlotReport[] {
    return [...this.#batches].map(({ claimant, queue, rounds }) => ({
      slot: claimant.slot,
      queue: queue.name,
      shard: claimant.shard,
      ids: rounds.map(({ id }) => id),
      since: new Date(Date.now() - (performance.now() - claimant.startedAt)),
    }))
  }

  /** The rounds in progress, with their processes and queues. */
  held(): HeldRounds[] {
    return [...this.#batches].map(({ claimant, rounds }) => ({
      processId: claimant.processId,
      queueId: claimant.served.queueId,
      rounds,
    }))
  }
}
