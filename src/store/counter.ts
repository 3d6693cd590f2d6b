import type { Database } from '../postgres/database.ts'

/** Rounds of one queue that have ended since the last call, and what has expired. */
export interface Count {
  readonly queueId: number
  readonly processed: number
  readonly failed: number
  /** Payloads that were never handed over. */
  readonly expired: number
}

/**
 * Adds the counts of a process, by day and by minute. Both tables are written in queue order and one after the other, so
 * that two processes can't deadlock.
 */
export async function addCounts(database: Database, counts: readonly Count[]): Promise<void> {
  const { prefix } = database
  await database.query(
    `WITH n AS MATERIALIZED (
       SELECT n.* FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[]) AS n(queue_id, processed, failed, expired)
       ORDER BY n.queue_id
     ), days AS (
       INSERT INTO ${prefix}.counters AS c (queue_id, day, processed, failed, expired)
       SELECT n.queue_id, current_date, n.processed, n.failed, n.expired FROM n
       ON CONFLICT (queue_id, day) DO UPDATE SET
         processed = c.processed + excluded.processed, failed = c.failed + excluded.failed,
         expired = c.expired + excluded.expired
     )
     INSERT INTO ${prefix}.minute_counters AS c (queue_id, minute, processed, failed, expired)
     SELECT n.queue_id, date_trunc('minute', clock_timestamp()), n.processed, n.failed, n.expired FROM n
     ON CONFLICT (queue_id, minute) DO UPDATE SET
       processed = c.processed + excluded.processed, failed = c.failed + excluded.failed,
       expired = c.expired + excluded.expired`,
    [
      counts.map((count) => count.queueId),
      counts.map((count) => count.processed),
      counts.map((count) => count.failed),
      counts.map((count) => count.expired),
    ],
  )
}

/** Deletes counts by minute older than a day, and returns how many. */
export async function trimMinutes(database: Database): Promise<number> {
  const [row] = await database.query<{ trimmed: number }>(
    `WITH gone AS (
       DELETE FROM ${database.prefix}.minute_counters WHERE minute < clock_timestamp() - interval '1 day' RETURNING 1
     ) SELECT count(*) AS trimmed FROM gone`,
  )
  return row!.trimmed
}
