import type { Database, Queryable } from '../postgres/database.ts'
import { quoteIdentifier } from '../postgres/schema-name.ts'
import { type Backend, STARTED_AT } from '../postgres/session.ts'

/** The data that a worker process registers with. */
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
  /** Changes whenever the lease is renewed. If it stays the same for a lease, the process is dead. */
  readonly renewal: string
  /** ms. */
  readonly lease: number
  /**
   * Its lock connection is open. A killed process loses it at once, long before its lease ends, so others take its shards
   * without waiting. Its claims stay until the lease ends.
   */
  readonly connected: boolean
  /** By the server's clock, it should have renewed its lease by now. Only a hint for people; it decides nothing. */
  readonly overdue: boolean
  /** What someone has asked it to do. */
  readonly request: ProcessRequest | null
}

/** What a person may ask of a process. */
export type ProcessRequest = 'quiet' | 'stop'

/**
 * The process gets a higher number than all before it, even on a server that was replicated or restored from another. The
 * same statement ensures this, since one that begins on a replica can't end on the primary it becomes.
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
 * Renews the leases of the processes $1, which are $2 ms long, and returns the processes whose lease was renewed. A row that
 * exists still belongs to its process, since others remove it before they take over (see remove_silent). `expires_at` is for
 * people, and decides nothing.
 */
export function renewalText(prefix: string): string {
  return `UPDATE ${prefix}.processes
    SET renewal = gen_random_uuid(), expires_at = clock_timestamp() + $2 * interval '1 ms'
    WHERE process_id = ANY ($1::integer[]) RETURNING process_id`
}

/** Returns the processes whose lease was renewed. */
export async function renewLeases(
  on: Queryable,
  schema: string,
  processIds: readonly number[],
  lease: number,
): Promise<number[]> {
  const { rows } = await on.query(renewalText(quoteIdentifier(schema)), [processIds, lease])
  return rows.map((row) => (row as { process_id: number }).process_id)
}

/**
 * Returns what was asked of the process, since no one else will learn of it. A report that a lost session of ours stores at
 * the same time may stay; remove_silent removes it.
 */
export async function removeProcess(
  on: Queryable,
  schema: string,
  processId: number,
): Promise<ProcessRequest | null> {
  const prefix = quoteIdentifier(schema)
  const { rows } = await on.query(
    `WITH removed AS (DELETE FROM ${prefix}.processes WHERE process_id = $1 RETURNING process_id, request),
       unreported AS (DELETE FROM ${prefix}.process_reports r USING removed p WHERE r.process_id = p.process_id)
     SELECT request FROM removed`,
    [processId],
  )
  return (rows[0] as { request: ProcessRequest | null } | undefined)?.request ?? null
}

/**
 * Stores what is asked of a process. Returns undefined if there is no such process, or else whether it is `overdue`. To stop
 * is more than to be quiet, and is not taken back. If the process is removed at the same time, this waits, and finds none; or
 * comes first, and removeProcess returns it.
 */
export async function askOfProcess(
  database: Database,
  processId: number,
  request: ProcessRequest,
): Promise<{ readonly overdue: boolean } | undefined> {
  const rows = await database.query<{ readonly overdue: boolean }>(
    `UPDATE ${database.prefix}.processes SET request = CASE request WHEN 'stop' THEN 'stop' ELSE $2::text END
     WHERE process_id = $1::integer RETURNING expires_at <= clock_timestamp() AS overdue`,
    [processId, request],
  )
  return rows[0]
}

export async function setQuiet(database: Database, processId: number): Promise<void> {
  await database.query(`UPDATE ${database.prefix}.processes SET quiet = true WHERE process_id = $1`, [
    processId,
  ])
}

/**
 * The locks of processes. By its lock, a process shows that it is there to share the work (see ShardLocks). Statements
 * that read them name this `locked`.
 */
export function lockedText(prefix: string): string {
  return `SELECT l.pid, l.objid FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid = '${prefix}.processes'::regclass
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`
}

/** Who may hold claims: the processes with a row, and 0 for the leases of consumers. */
export function holdersText(prefix: string): string {
  return `(SELECT o.process_id FROM ${prefix}.processes o UNION ALL SELECT 0)`
}

/** All processes with a row, as ProcessSight. */
export function sightsText(prefix: string): string {
  return `SELECT p.process_id AS "processId", p.queues, p.quiet, p.renewal, p.lease,
      EXISTS (SELECT FROM locked l WHERE l.objid = p.process_id::oid) AS connected,
      p.expires_at <= clock_timestamp() AS overdue, p.request
    FROM ${prefix}.processes p`
}

/** Sessions that hold the lock of a removed process, but not of an existing one, as ProcessSession. */
export function outlivedText(prefix: string): string {
  return `SELECT l.pid, min(l.objid::bigint) AS "processId"
    FROM locked l LEFT JOIN ${prefix}.processes p ON p.process_id::oid = l.objid
    GROUP BY l.pid HAVING count(p.process_id) = 0`
}

/** All processes with a row, by number. */
export function lookAtProcesses(database: Database): Promise<ProcessSight[]> {
  const { prefix } = database
  return database.query<ProcessSight>(
    `WITH locked AS MATERIALIZED (${lockedText(prefix)}) ${sightsText(prefix)} ORDER BY p.process_id`,
  )
}

/** Removes processes whose renewal is still the one given, and returns them. */
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

/** A session that existed. */
export interface FoundSession extends Backend {
  /** Null in the middle of a statement. */
  readonly ended: boolean | null
  /** It belongs to another role, so it can't be seen whether it's the same one. */
  readonly hidden: boolean
}

/**
 * Ends sessions, except hidden ones, and those in the middle of a statement: that may still take effect, and its sender will
 * see that when it asks again. Returns those that existed. Needs the same rights as `endOutlived`.
 */
export function endIdle(database: Database, backends: readonly Backend[]): Promise<FoundSession[]> {
  return database.query(
    `SELECT b.pid, b."startedAt", a."startedAt" IS NULL AS hidden,
       CASE WHEN a.state IS DISTINCT FROM 'active' AND a."startedAt" IS NOT NULL
         THEN pg_catalog.pg_terminate_backend(b.pid) END AS ended
     FROM unnest($1::integer[], $2::text[]) AS b (pid, "startedAt")
     CROSS JOIN LATERAL (
       SELECT state, ${STARTED_AT} AS "startedAt" FROM pg_catalog.pg_stat_get_activity(b.pid)
     ) a
     WHERE coalesce(a."startedAt" = b."startedAt", true)`,
    [backends.map(({ pid }) => pid), backends.map(({ startedAt }) => startedAt)],
  )
}

/** Whether this is a session of the server and database that `database` reaches. */
export async function hasSession(database: Database, { pid, startedAt }: Backend): Promise<boolean> {
  const rows = await database.query(
    // Of another role's session, the start can't be seen.
    `SELECT FROM pg_catalog.pg_stat_get_activity($1::integer) a
     JOIN pg_catalog.pg_database d ON d.oid = a.datid AND d.datname = current_database()
     WHERE coalesce(${STARTED_AT} = $2, true)`,
    [pid, startedAt],
  )
  return rows.length > 0
}

/** A session that holds the lock of a process. */
export interface ProcessSession {
  readonly pid: number
  readonly processId: number
}

/**
 * Ends a session if it still outlives its process: by now, its number may belong to another session.
 *
 * Needs the role of the session, or `pg_signal_backend`. The type selects the right function, since an extension may add
 * another one with that name, as Citus does for sessions on all its nodes.
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
