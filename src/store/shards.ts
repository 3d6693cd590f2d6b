import type { Database } from '../postgres/database.ts'
import { MAX_SHARDS } from '../queue.ts'
import { lockedText } from './process.ts'

/** The state of a shard, with counts like those of QueueStats. */
export interface ShardStats {
  /** Counted from 0. */
  readonly shard: number
  readonly waiting: number
  readonly due: number
  readonly working: number
  /** ms since the oldest due job became due; 0 if none is due. */
  readonly lag: number
  /** The process that serves the shard; null if none does. */
  readonly processId: number | null
}

/**
 * A row per shard, also for shards that were removed and still hold jobs. Counts all jobs of the queue. A process serves the
 * shards whose locks are held by the session that holds its own lock.
 */
export function readShards(database: Database, queueId: number): Promise<ShardStats[]> {
  const { prefix } = database
  return database.query<ShardStats>(
    `WITH locked AS MATERIALIZED (${lockedText(prefix)}), served AS (
       SELECT l.objid, min(p.process_id) AS process_id
       FROM pg_locks l JOIN locked o USING (pid) JOIN ${prefix}.processes p ON p.process_id::oid = o.objid
       WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid = '${prefix}.jobs'::regclass
         AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       GROUP BY l.objid
     ), counted AS (
       SELECT e.shard, count(e.perform_in) AS waiting, count(*) FILTER (WHERE e.perform_in <= e.now) AS due,
         count(*) FILTER (WHERE e.working) AS working, min(e.perform_in) FILTER (WHERE e.perform_in <= e.now) AS oldest
       FROM (
         SELECT j.shard, now.at AS now, p.process_id IS NOT NULL AS working,
           CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in
         FROM (SELECT clock_timestamp() AS at OFFSET 0) now
         CROSS JOIN ${prefix}.jobs j LEFT JOIN ${prefix}.processes p ON p.process_id = j.claimed_by
         WHERE j.queue_id = $1
       ) e GROUP BY e.shard
     )
     SELECT s.shard, coalesce(c.waiting, 0) AS waiting, coalesce(c.due, 0) AS due, coalesce(c.working, 0) AS working,
       coalesce(greatest(extract(epoch FROM clock_timestamp() - c.oldest) * 1000, 0), 0)::double precision AS lag,
       v.process_id AS "processId"
     FROM (
       SELECT generate_series(0, q.shards - 1) AS shard FROM ${prefix}.queues q WHERE q.queue_id = $1
       UNION SELECT c.shard FROM counted c
     ) s
     LEFT JOIN counted c USING (shard)
     LEFT JOIN served v ON v.objid = (($1::bigint * ${MAX_SHARDS} + s.shard) & 4294967295)::oid
     ORDER BY s.shard`,
    [queueId],
  )
}
