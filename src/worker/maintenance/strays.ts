import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'
import { rehome } from '../../store/queue.ts'
import type { Maintenance } from './maintenance.ts'

/** Jobs a run moves of a queue. */
const CHUNK = 500

/** Moves jobs out of shards that went: a producer that counted with the old number may commit one at any time. */
export class Strays implements Maintenance {
  readonly name = 'strays'
  readonly every: number
  #queueIds: number[] = []

  /** `rebalanceInterval`: ms between comparisons. */
  constructor(rebalanceInterval: number) {
    this.every = rebalanceInterval
  }

  see({ queues }: Comparison): void {
    this.#queueIds = queues.filter(({ strays }) => strays).map(({ queueId }) => queueId)
  }

  isDue(): boolean {
    return this.#queueIds.length > 0
  }

  /** A chunk may not have been all, and what a producer's open transaction holds is passed over. */
  nextSight(): number {
    return this.isDue() ? this.every : Number.POSITIVE_INFINITY
  }

  async run(database: Database): Promise<object | undefined> {
    let moved = 0
    for (const queueId of this.#queueIds) moved += await rehome(database, queueId, CHUNK)
    return moved > 0 ? { moved } : undefined
  }
}
