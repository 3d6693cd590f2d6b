import type { Database } from '../postgres/database.ts'
import { type QueueStats, readQueueStats } from '../store/stats.ts'

export interface Stats {
  /** By name. */
  readonly queues: QueueStats[]
  /** Sums over all queues; the lag is the largest. */
  readonly total: Omit<QueueStats, 'queue' | 'shards' | 'pausedAt'>
}

export async function stats(database: Database): Promise<Stats> {
  const queues = await readQueueStats(database)
  const sum = (key: Exclude<keyof Stats['total'], 'lag'>) =>
    queues.reduce((total, queue) => total + queue[key], 0)
  return {
    queues,
    total: {
      waiting: sum('waiting'),
      due: sum('due'),
      fresh: sum('fresh'),
      retrying: sum('retrying'),
      working: sum('working'),
      dead: sum('dead'),
      lag: Math.max(0, ...queues.map(({ lag }) => lag)),
      processed: sum('processed'),
      failed: sum('failed'),
      expired: sum('expired'),
    },
  }
}
