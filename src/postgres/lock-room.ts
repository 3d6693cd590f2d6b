import { DatabaseError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import type { Database } from './database.ts'

/** The capacity of a server's lock table, shared by all its sessions and databases. */
interface LockRoom {
  /** `max_locks_per_transaction`. */
  readonly setting: number
  /** How many more locks fit if the setting is raised by one. */
  readonly each: number
  /** `max_pred_locks_per_transaction`. */
  readonly predicates: number
  /** Advisory locks that others hold, except those on shards of this schema. */
  readonly taken: number
}

/**
 * The server sizes the table for `setting` locks per possible process, and lets it grow into unused shared memory. So more
 * may fit: as measured on Postgres 18, 1.6 times as many, plus a tenth of the room for predicate locks, plus some thousands.
 * More than the factors below, which leave a margin, is sure to fail.
 */
const SURE_TO_FAIL = { locks: 2, predicates: 0.15, more: 10_000 }

const ROOM = `SELECT current_setting('max_locks_per_transaction')::integer AS setting,
    current_setting('max_pred_locks_per_transaction')::integer AS predicates,
    current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer
      + current_setting('max_worker_processes')::integer + current_setting('max_wal_senders')::integer
      + current_setting(CASE WHEN current_setting('server_version_num')::integer >= 180000
          THEN 'autovacuum_worker_slots' ELSE 'autovacuum_max_workers' END)::integer AS "each",
    (SELECT count(*)::integer FROM (
      SELECT DISTINCT l.database, l.classid, l.objid, l.objsubid FROM pg_catalog.pg_locks l
      WHERE l.locktype = 'advisory' AND NOT (l.objsubid = 2 AND l.classid = $1::text::regclass AND l.database =
        (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
    ) l) AS taken`

/**
 * Checks that the server has room for `needed` locks. A worker that fills the table makes other sessions' statements fail
 * too. So this throws an error if the worker can't work, and logs a warning if it might not.
 * @throws DatabaseError `LOCKSTEP_TOO_MANY_LOCKS`
 */
export async function requireLockRoom(database: Database, needed: number, logger: Logger): Promise<void> {
  const [room] = await database.query<LockRoom>(ROOM, [`${database.prefix}.jobs`])
  const { setting, each, predicates, taken } = room!
  const certain = setting * each
  const { locks, predicates: spared, more } = SURE_TO_FAIL
  const most = certain * locks + predicates * each * spared + more
  if (needed + taken <= certain) return
  const enough = Math.ceil((needed + taken) / each)
  const message = `the shards of the worker's queues need ${needed} locks${taken > 0 ? ` in addition to ${taken} of others` : ''}, but with max_locks_per_transaction = ${setting} the server has room for ${certain}: set it to ${enough} or more, which requires a restart, or give queues fewer shards (in their definitions and with \`lockstep reshard\`)`
  if (needed + taken > most) throw new DatabaseError('LOCKSTEP_TOO_MANY_LOCKS', message)
  logger.warn(
    { needed, taken, room: certain, setting, enough },
    `${message}; the server may have more room, so the worker tries anyway`,
  )
}
