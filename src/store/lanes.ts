import type { Database } from '../postgres/database.ts'

/** What waits in a lane of a queue, in all its shards. */
export interface LaneStats {
  readonly lane: number
  /** Jobs that are not in work. */
  readonly waiting: number
  /** ms since the oldest due one became due; 0 if none is due. */
  readonly lag: number
}

/** A row per lane in which jobs wait, by number. Counts all jobs of the queue. */
export function readLanes(database: Database, queueId: number): Promise<LaneStats[]> {
  return database.query<LaneStats>(
    `SELECT j.lane, count(*) AS waiting,
       coalesce(greatest(extract(epoch FROM clock_timestamp() - min(j.perform_in)) * 1000, 0), 0)::double precision AS lag
     FROM ${database.prefix}.jobs j LEFT JOIN ${database.prefix}.processes p ON p.process_id = j.claimed_by
     WHERE j.queue_id = $1 AND p.process_id IS NULL GROUP BY j.lane ORDER BY j.lane`,
    [queueId],
  )
}
