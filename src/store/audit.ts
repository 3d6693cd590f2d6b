import type { Database } from '../postgres/database.ts'
import { storable } from './encoding.ts'
import { dateOrNull, type InMs, msText } from './time.ts'

/** What a person may do: the methods of `Lockstep` that take `by`. */
export type AuditedAction =
  | 'performNow'
  | 'delete'
  | 'kill'
  | 'requeue'
  | 'deleteDead'
  | 'pause'
  | 'resume'
  | 'reshard'
  | 'deleteQueue'
  | 'quiet'
  | 'stop'
  | 'createToken'
  | 'deleteToken'

/** An action of a person. */
export interface AuditEntry {
  /** Higher for later ones. */
  readonly id: number
  /** Who did it, as the caller named them. */
  readonly by: string
  /** The role that was logged in at the database. */
  readonly role: string
  readonly action: AuditedAction
  /** By name. It may be gone. Null for what is asked of a process, and for tokens. */
  readonly queue: string | null
  /**
   * The filter, the number of `shards`, `withJobs`, a `processId`, or a token without its text. Of lists, the first 20 values; `leftOut` says how many more there were.
   * Times are text.
   */
  readonly details: Readonly<Record<string, unknown>>
  /** By the server's clock. */
  readonly beganAt: Date
  /** Null while it runs; it stays null if its process or its connection was lost: then a part may have been done. */
  readonly endedAt: Date | null
  /** Jobs, payloads or rows; null until it has ended, and for what counts nothing: `pause` and `resume`. */
  readonly affected: number | null
  /** Why it failed, or was stopped; null otherwise. */
  readonly error: string | null
}

export interface NewEntry extends Pick<AuditEntry, 'by' | 'action' | 'queue'> {
  /** JSON. */
  readonly details: string
}

/** Writes that an action begins, and returns the entry's id. */
export async function noteBeginning(
  database: Database,
  { by, action, queue, details }: NewEntry,
): Promise<number> {
  const values = [...(await storable(database, [by, queue])), action, details]
  for (;;) {
    // Of two that begin together, the second waits for the first, and finds its number taken. At a higher level that would
    // be an error.
    const [row] = await database.transaction((tx) =>
      database.query<{ id: number }>(
        `INSERT INTO ${database.prefix}.audit (audit_id, actor, queue, action, details)
         SELECT coalesce(max(a.audit_id), 0) + 1, $1::text, $2::text, $3::text, $4::jsonb FROM ${database.prefix}.audit a
         ON CONFLICT DO NOTHING RETURNING audit_id AS id`,
        values,
        tx,
      ),
    )
    if (row) return row.id
  }
}

/** Writes how it ended. */
export async function noteEnd(
  database: Database,
  id: number,
  affected: number | null,
  error: string | null,
): Promise<void> {
  const [stored] = await storable(database, [error])
  await database.query(
    `UPDATE ${database.prefix}.audit SET ended_at = clock_timestamp(), affected = $2, error = $3 WHERE audit_id = $1`,
    [id, affected, stored],
  )
}

/** The newest entries first; with `before`, those before that one. */
export async function listAudit(
  database: Database,
  limit: number,
  before: number | undefined,
): Promise<AuditEntry[]> {
  const rows = await database.query<InMs<AuditEntry, 'beganAt' | 'endedAt'>>(
    `SELECT a.audit_id AS id, a.actor AS by, a.role, a.action, a.queue, a.details, ${msText('a.began_at')} AS "beganAt",
       ${msText('a.ended_at')} AS "endedAt", a.affected, a.error
     FROM ${database.prefix}.audit a WHERE $2::bigint IS NULL OR a.audit_id < $2 ORDER BY a.audit_id DESC LIMIT $1`,
    [limit, before ?? null],
  )
  return rows.map((row) => ({ ...row, beganAt: new Date(row.beganAt), endedAt: dateOrNull(row.endedAt) }))
}

/** Deletes entries that are too old or too many, a thousand at most, and returns how many. */
export async function trimAudit(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_audit: number }>('trim_audit', [])
  return row!.trim_audit
}
