import type { Database, Queryable } from '../postgres/database.ts'
import { quoteIdentifier } from '../postgres/schema-name.ts'
import { type Backend, STARTED_AT } from '../postgres/session.ts'

/** What a worker process tells of itself. */
export interface ProcessInfo {
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly slots: number
  readonly queues: readonly string[]
}

/** A process as others see it. */
export interface ProcessSight {
  readonly processId: number
  readonly queues: string[]
  readonly quiet: boolean
  /** Drawn anew whenever its lease is renewed: where this stays for a lease, nobody lives there. */
  readonly renewal: string
  /** ms. */
  readonly lease: number
  /**
   * Its lock connection stands. One that was killed lets go of it at once, long before its lease ends, so its shards are
   * shared out without waiting; its claims are not: those keep the lease.
   */
  readonly connected: boolean
  /** It should have renewed its lease by now, by the server's clock: a hint for people, that decides nothing. */
  readonly overdue: boolean
}

/**
 * Its number lies above all that were given out before, also on a server that was replicated or restored from another.
 * That is seen to in the same statement: one that begins on a replica can't end on the primary it becomes.
 */
export async function registerProcess(
  on: Queryable,
  schema: string,
  info: ProcessInfo,
  lease: number,
): Promise<number> {
  const prefix = quoteIdentifier(schema)
  const { rows } = await on.query(
    `WITH noted AS MATERIALIZED (SELECT ${prefix}.note_timeline())
     INSERT INTO ${prefix}.processes (host, pid, version, slots, queues, lease, expires_at)
     SELECT $1::text, $2::integer, $3::text, $4::integer, $5::text[], $6::integer, clock_timestamp() + $6 * interval '1 ms'
     FROM noted RETURNING process_id`,
    [info.host, info.pid, info.version, info.slots, info.queues, lease],
  )
  return (rows[0] as { process_id: number }).process_id
}

/**
 * Renews leases, and says whose. A row that is there is its process's own: whoever takes over removes it first (see
 * remove_silent). `expires_at` is for people, and decides nothing.
 */
export async function renewLeases(
  on: Queryable,
  schema: string,
  processIds: readonly number[],
  lease: number,
): Promise<number[]> {
  const { rows } = await on.query(
    `UPDATE ${quoteIdentifier(schema)}.processes
     SET renewal = gen_random_uuid(), expires_at = clock_timestamp() + $2 * interval '1 ms'
     WHERE process_id = ANY ($1::integer[]) RETURNING process_id`,
    [processIds, lease],
  )
  return rows.map((row) => (row as { process_id: number }).process_id)
}

export async function removeProcess(on: Queryable, schema: string, processId: number): Promise<void> {
  await on.query(`DELETE FROM ${quoteIdentifier(schema)}.processes WHERE process_id = $1`, [processId])
}

export async function setQuiet(database: Database, processId: number): Promise<void> {
  await database.query(`UPDATE ${database.prefix}.processes SET quiet = true WHERE process_id = $1`, [
    processId,
  ])
}

/**
 * The locks of processes: one shows by its own that it is there to share the work (see ShardLocks). What reads them calls this
 * `locked`.
 */
export function lockedText(prefix: string): string {
  return `SELECT l.pid, l.objid FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid = '${prefix}.processes'::regclass
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`
}

/** All processes whose rows are there, as ProcessSight. */
export function sightsText(prefix: string): string {
  return `SELECT p.process_id AS "processId", p.queues, p.quiet, p.renewal, p.lease,
      EXISTS (SELECT FROM locked l WHERE l.objid = p.process_id::oid) AS connected,
      p.expires_at <= clock_timestamp() AS overdue
    FROM ${prefix}.processes p`
}

/** Sessions with the lock of a process that was removed, and of none that is there, as ProcessSession. */
export function outlivedText(prefix: string): string {
  return `SELECT l.pid, min(l.objid::bigint) AS "processId"
    FROM locked l LEFT JOIN ${prefix}.processes p ON p.process_id::oid = l.objid
    GROUP BY l.pid HAVING count(p.process_id) = 0`
}

/** All processes whose rows are there, by their numbers. */
export function lookAtProcesses(database: Database): Promise<ProcessSight[]> {
  const { prefix } = database
  return database.query<ProcessSight>(
    `WITH locked AS MATERIALIZED (${lockedText(prefix)}) ${sightsText(prefix)} ORDER BY p.process_id`,
  )
}

/** Removes those that nobody has renewed since they were seen so, and returns them. */
export async function removeSilent(
  database: Database,
  silent: readonly Pick<ProcessSight, 'processId' | 'renewal'>[],
): Promise<number[]> {
  const rows = await database.call<{ remove_silent: number }>('remove_silent', [
    silent.map(({ processId }) => processId),
    silent.map(({ renewal }) => renewal),
  ])
  return rows.map((row) => row.remove_silent)
}

/**
 * Ends sessions, but for those that are in the middle of a statement: that may still take effect, as whoever asked for it finds
 * when he asks again. Returns those that were there. Rights as of `endOutlived`.
 */
export function endIdle(
  database: Database,
  backends: readonly Backend[],
): Promise<(Backend & { ended: boolean | null })[]> {
  return database.query(
    `SELECT b.pid, b."startedAt",
       CASE WHEN a.state IS DISTINCT FROM 'active' THEN pg_catalog.pg_terminate_backend(b.pid) END AS ended
     FROM unnest($1::integer[], $2::text[]) AS b (pid, "startedAt")
     CROSS JOIN LATERAL (
       SELECT state, ${STARTED_AT} AS "startedAt" FROM pg_catalog.pg_stat_get_activity(b.pid)
     ) a
     WHERE a."startedAt" = b."startedAt"`,
    [backends.map(({ pid }) => pid), backends.map(({ startedAt }) => startedAt)],
  )
}

/** A session that holds the lock of a process. */
export interface ProcessSession {
  readonly pid: number
  readonly processId: number
}

/**
 * Ends a session that outlives its process still: its number may be another session's by now.
 *
 * Needs the same role as the session's, or `pg_signal_backend`. The type says which function is meant: an extension may have
 * brought another one of that name, as Citus does for numbers of sessions on all its nodes.
 */
export async function endOutlived(database: Database, { pid, processId }: ProcessSession): Promise<void> {
  const { prefix } = database
  await database.query(
    `WITH locked AS MATERIALIZED (${lockedText(prefix)})
     SELECT pg_catalog.pg_terminate_backend(o.pid::integer) FROM (${outlivedText(prefix)}) o
     WHERE o.pid = $1::integer AND o."processId" = $2::bigint`,
    [pid, processId],
  )
}
