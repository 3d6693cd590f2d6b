import type { Database, Queryable } from '../postgres/database.ts'
import { quoteIdentifier } from '../postgres/schema-name.ts'

/** What a worker process tells of itself. */
export interface ProcessInfo {
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly slots: number
  readonly queues: readonly string[]
}

/** A process that shares the work: its lease runs and its lock connection stands. */
export interface LiveProcess {
  readonly processId: number
  readonly queues: string[]
  readonly quiet: boolean
}

export async function registerProcess(
  on: Queryable,
  schema: string,
  info: ProcessInfo,
  lease: number,
): Promise<number> {
  const { rows } = await on.query(
    `INSERT INTO ${quoteIdentifier(schema)}.processes (host, pid, version, slots, queues, expires_at)
     VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 ms') RETURNING process_id`,
    [info.host, info.pid, info.version, info.slots, info.queues, lease],
  )
  return (rows[0] as { process_id: number }).process_id
}

/** Renews leases that still run, and says which: an ended one is never renewed, others may have taken over. */
export async function renewLeases(
  on: Queryable,
  schema: string,
  processIds: readonly number[],
  lease: number,
): Promise<number[]> {
  const { rows } = await on.query(
    `UPDATE ${quoteIdentifier(schema)}.processes SET expires_at = clock_timestamp() + $2 * interval '1 ms'
     WHERE process_id = ANY ($1::integer[]) AND expires_at > clock_timestamp() RETURNING process_id`,
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
 * Processes that serve any of the queues. One that was killed lets go of its lock at once, long before its lease
 * ends, so its shards are shared out without waiting; its claims are not: those keep the lease.
 */
export function listLiveProcesses(database: Database, queues: readonly string[]): Promise<LiveProcess[]> {
  return database.query<LiveProcess>(
    `SELECT p.process_id AS "processId", p.queues, p.quiet
     FROM ${database.prefix}.processes p
     JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 2 AND l.objid = p.process_id::oid
       AND l.classid = '${database.prefix}.processes'::regclass
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
     WHERE p.expires_at > clock_timestamp() AND p.queues && $1::text[]
     ORDER BY p.process_id`,
    [queues],
  )
}

/** Removes the rows of processes that died and left no claim to rescue. */
export async function sweepProcesses(database: Database): Promise<void> {
  await database.query(
    `DELETE FROM ${database.prefix}.processes p WHERE p.expires_at < clock_timestamp() - interval '1 minute'
       AND p.process_id IN (
         SELECT s.process_id FROM ${database.prefix}.processes s
         WHERE s.expires_at < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED
       )`,
  )
}

/** A session that holds the lock of a process. */
export interface ProcessSession {
  readonly pid: number
  readonly processId: number
}

/** Sessions with the lock of a process whose lease has ended, and of none whose lease runs. */
export function listOutlivedSessions(database: Database): Promise<ProcessSession[]> {
  const { prefix } = database
  return database.query<ProcessSession>(
    `SELECT l.pid, min(l.objid::bigint) AS "processId"
     FROM pg_locks l LEFT JOIN ${prefix}.processes p
       ON p.process_id::oid = l.objid AND p.expires_at > clock_timestamp()
     WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
       AND l.classid = '${prefix}.processes'::regclass
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
     GROUP BY l.pid HAVING count(p.process_id) = 0`,
  )
}

/**
 * Needs the same role as the session's, or `pg_signal_backend`. The type says which function is meant: an extension may have
 * brought another one of that name, as Citus does for numbers of sessions on all its nodes.
 */
export async function endSession(database: Database, pid: number): Promise<void> {
  await database.query('SELECT pg_catalog.pg_terminate_backend($1::integer)', [pid])
}
