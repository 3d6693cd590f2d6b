import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'
import { rehome } from '../../store/queue.ts'
import type { Maintenance } from './maintenance.ts'

/** Most jobs that a run moves in one queue. */
const CHUNK = 500

/** Moves jobs out of removed shards. A producer that used the old number of shards may commit one at any time. */
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

  /** A chunk may not be all of them, and rows that a producer's open transaction holds are skipped. */
  nextSight(): number {
    return this.isDue() ? this.every : Number.POSITIVE_INFINITY
  }

  async run(database: Database): Promise<object | undefined> {
    let moved = 0
    for (const queueId of this.#queueIds) moved += await rehome(database, queueId, CHUNK)
    return moved > 0 ? { moved } : undefined
  }
}
