import type { Database } from '../postgres/database.ts'

/** A job that has expired waits to be swept. Of one with several payloads, some may not have. */
const LIVES = '(expires_in IS NULL OR expires_in > clock_timestamp() OR has_payloads)'

/** What counting cost the database: so that neither a connection that was busy nor the way there counts. */
const COST = 'extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 * 1000 AS ms'

export interface Size {
  readonly count: number
  /** ms that the database took to count. */
  readonly ms: number
}

/** How many jobs of a queue are due, unclaimed and not expired; 0 if there is no such queue. Counts them one by one. */
export async function countReady(database: Database, queue: string): Promise<Size> {
  const [row] = await database.query<Size>(
    `SELECT count(*)::integer AS count, ${COST} FROM ${database.prefix}.jobs j
     WHERE j.queue_id = (SELECT q.queue_id FROM ${database.prefix}.queues q WHERE q.name = $1)
       AND j.perform_in <= clock_timestamp() AND j.claimed_by IS NULL AND ${LIVES}`,
    [queue],
  )
  return row!
}

export interface DeadSize extends Size {
  /** The job whose payload died first; null if there is none. */
  readonly oldest: string | null
}

/** The payloads of a queue in the morgue. Counts them one by one. */
export async function sizeOfMorgue(database: Database, queue: string): Promise<DeadSize> {
  const [row] = await database.query<DeadSize>(
    `WITH dead AS NOT MATERIALIZED (
       SELECT m.job_id, m.died_at FROM ${database.prefix}.morgue m
       WHERE m.queue_id = (SELECT q.queue_id FROM ${database.prefix}.queues q WHERE q.name = $1)
     )
     SELECT (SELECT count(*)::integer FROM dead) AS count,
       (SELECT job_id FROM dead ORDER BY died_at, job_id LIMIT 1) AS oldest, ${COST}`,
    [queue],
  )
  return row!
}

export async function namesOfQueues(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `SELECT name FROM ${database.prefix}.queues ORDER BY name`,
  )
  return rows.map(({ name }) => name)
}

export interface SizesOfQueue {
  readonly name: string
  /** Due and unclaimed. */
  readonly ready: number
  /** Not due yet. */
  readonly delayed: number
  readonly dead: number
}

/** Of all queues. Counts every job. */
export async function sizesOfQueues(database: Database): Promise<SizesOfQueue[]> {
  return database.query<SizesOfQueue>(
    `SELECT q.name, coalesce(j.ready, 0) AS ready, coalesce(j.delayed, 0) AS delayed, coalesce(m.dead, 0) AS dead
     FROM ${database.prefix}.queues q
     LEFT JOIN (
       SELECT queue_id, count(*) FILTER (WHERE perform_in <= clock_timestamp() AND claimed_by IS NULL) AS ready,
         count(*) FILTER (WHERE perform_in > clock_timestamp() AND claimed_by IS NULL) AS delayed
       FROM ${database.prefix}.jobs WHERE ${LIVES} GROUP BY queue_id
     ) j USING (queue_id)
     LEFT JOIN (SELECT queue_id, count(*) AS dead FROM ${database.prefix}.morgue GROUP BY queue_id) m USING (queue_id)
     ORDER BY q.name`,
  )
}
