import type { Database } from '../postgres/database.ts'
import { MAX_SHARDS } from '../queue.ts'
import { holdersText, lockedText } from './process.ts'

/** Counts like those of QueueStats. */
interface PartStats {
  readonly waiting: number
  readonly due: number
  readonly working: number
  /** ms since the oldest due job became due; 0 if none is due. */
  readonly lag: number
}

/** The state of a shard. */
export interface ShardStats extends PartStats {
  /** Counted from 0. */
  readonly shard: number
  /** The process that serves the shard; null if none does. */
  readonly processId: number | null
}

/** The state of a lane, in all shards. What tenants have of their own, below 0, counts as 0. */
export interface LaneStats extends PartStats {
  readonly lane: number
}

export interface QueueParts {
  /** All of them, also those that were removed and still hold jobs. */
  readonly shards: readonly ShardStats[]
  /** Those that hold jobs. */
  readonly lanes: readonly LaneStats[]
}

interface Row extends PartStats {
  readonly shard: number | null
  readonly lane: number | null
  readonly processId: number | null
}

const LAG = `coalesce(greatest(extract(epoch FROM clock_timestamp() - min(c.oldest)) * 1000, 0), 0)::double precision AS lag`
const SUMS = `coalesce(sum(c.waiting), 0)::bigint AS waiting, coalesce(sum(c.due), 0)::bigint AS due,
  coalesce(sum(c.working), 0)::bigint AS working, ${LAG}`

/**
 * Shards and lanes by number. All jobs of the queue are read, once for both, and by several processes of the server if they
 * are many. A process serves the shards whose locks are held by the session that holds its own lock.
 */
export async function readParts(database: Database, queueId: number): Promise<QueueParts> {
  const { prefix } = database
  const rows = await database.query<Row>(
    `WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at), counted AS MATERIALIZED (
       SELECT e.shard, e.lane, count(e.perform_in) AS waiting,
         count(*) FILTER (WHERE e.perform_in <= (SELECT n.at FROM now n)) AS due,
         count(*) FILTER (WHERE e.working) AS working, min(e.perform_in) AS oldest
       FROM (
         SELECT j.shard, greatest(j.lane, 0) AS lane, p.process_id IS NOT NULL AS working,
           CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in
         FROM ${prefix}.jobs j LEFT JOIN ${holdersText(prefix)} p ON p.process_id = j.claimed_by
         WHERE j.queue_id = $1
       ) e GROUP BY e.shard, e.lane
     ), locked AS MATERIALIZED (${lockedText(prefix)}), served AS (
       SELECT l.objid, min(p.process_id) AS process_id
       FROM pg_locks l JOIN locked o USING (pid) JOIN ${prefix}.processes p ON p.process_id::oid = o.objid
       WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid = '${prefix}.jobs'::regclass
         AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       GROUP BY l.objid
     ), shards AS (
       SELECT generate_series(0, q.shards - 1) AS shard FROM ${prefix}.queues q WHERE q.queue_id = $1
       UNION SELECT c.shard FROM counted c
     )
     SELECT s.shard, NULL::integer AS lane, ${SUMS}, min(v.process_id) AS "processId"
     FROM shards s LEFT JOIN counted c USING (shard)
     LEFT JOIN served v ON v.objid = (($1::bigint * ${MAX_SHARDS} + s.shard) & 4294967295)::oid
     GROUP BY s.shard
     UNION ALL
     SELECT NULL, c.lane, ${SUMS}, NULL FROM counted c GROUP BY c.lane
     ORDER BY shard, lane`,
    [queueId],
  )
  return {
    shards: rows.flatMap(({ shard, lane, ...row }) => (shard === null ? [] : [{ shard, ...row }])),
    lanes: rows.flatMap(({ shard, lane, processId, ...row }) => (lane === null ? [] : [{ lane, ...row }])),
  }
}
