import type { Database } from '../postgres/database.ts'

/** Rounds of one queue that ended since the last time. */
export interface Count {
  readonly queueId: number
  readonly processed: number
  readonly failed: number
}

/** Adds what a process has counted: in queue order, so that two processes can't deadlock. */
export async function addCounts(database: Database, counts: readonly Count[]): Promise<void> {
  await database.query(
    `INSERT INTO ${database.prefix}.counters AS c (queue_id, day, processed, failed)
     SELECT n.queue_id, current_date, n.processed, n.failed
     FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) AS n(queue_id, processed, failed) ORDER BY n.queue_id
     ON CONFLICT (queue_id, day) DO UPDATE SET
       processed = c.processed + excluded.processed, failed = c.failed + excluded.failed`,
    [
      counts.map((count) => count.queueId),
      counts.map((count) => count.processed),
      counts.map((count) => count.failed),
    ],
  )
}
