import type { Database } from '../postgres/database.ts'

/**
 * ms since the beginning of the oldest transaction that holds back VACUUM in this database; 0 if none does.
 *
 * A transaction does so from its snapshot or its first write on, so one that has neither doesn't count. Times are compared,
 * not the transaction numbers that hold VACUUM back: a snapshot names the oldest transaction of the whole server, so the
 * lowest number may be that of a snapshot taken just now. VACUUM's own snapshots hold nothing back, nor do those of sessions
 * in other databases. A walsender passes on what a standby's queries need. Prepared transactions have no session, and what is
 * known of their beginning is when they were prepared.
 */
export async function readSnapshotAge(database: Database): Promise<number> {
  const [row] = await database.query<{ age: number }>(SNAPSHOT_AGE)
  return row!.age
}

const SNAPSHOT_AGE = `SELECT greatest(extract(epoch FROM clock_timestamp() - min(h.since)) * 1000, 0)::double precision AS age
  FROM (
    SELECT coalesce(a.xact_start, a.backend_start) AS since
    FROM pg_catalog.pg_stat_activity a
    WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.pid <> pg_backend_pid()
      AND (a.datname = current_database() OR a.backend_type = 'walsender')
      AND a.pid NOT IN (SELECT v.pid FROM pg_catalog.pg_stat_progress_vacuum v)
    UNION ALL
    SELECT p.prepared FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database()
  ) h`
