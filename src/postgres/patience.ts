import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DatabaseError } from '../errors.ts'
import { hasCode, toCallError, toStatementError } from './failure.ts'
import { quoteIdentifier } from './schema-name.ts'
import { IDLE_TIMEOUT } from './session.ts'

/** ms to wait for a lock on a whole table or view. Everyone who comes after us waits behind us for as long. */
const LOCK_TIMEOUT = 150
/** ms between tries, doubled from the first to the last. Everyone else can go on meanwhile. */
const [FIRST_PAUSE, LAST_PAUSE] = [100, 2_000]
const LOCK_NOT_AVAILABLE = '55P03'
const DEADLOCK = '40P01'
const MAX_HOLDERS = 5

export interface Patience {
  readonly schema: string
  /** Such as `migrating`. */
  readonly what: string
  /** ms after which no other try begins. */
  readonly giveUpAfter: number
}

/** Only for statements that lock a whole table or view: waiting for another migration does no harm. */
export const SHORT_LOCKS = `SET LOCAL lock_timeout = ${LOCK_TIMEOUT}`

/**
 * Time-outs of the role or the database suit others' transactions: they would end each try of a longer one, and with its session. Those
 * that a server of this release doesn't have are left out.
 */
const OWN_TIMEOUTS = `SELECT pg_catalog.set_config(name, CASE name
    WHEN 'idle_in_transaction_session_timeout' THEN '${IDLE_TIMEOUT}' ELSE '0' END, true)
  FROM pg_catalog.pg_settings
  WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')`

/**
 * Repeats a transaction that locks whole tables or views until it gets the locks. Locks have a queue: if this waited for
 * a long SELECT, everyone else would wait behind it. So it waits a moment, gives way, and tries again in a new
 * transaction.
 * @throws DatabaseError `LOCKSTEP_LOCKED`, naming sessions that hold locks
 */
export async function withLocks<T>(
  client: pg.ClientBase,
  { schema, what, giveUpAfter }: Patience,
  attempt: () => Promise<T>,
): Promise<T> {
  const until = performance.now() + giveUpAfter
  for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LAST_PAUSE)) {
    try {
      return await inTransaction(client, attempt)
    } catch (error) {
      if (!hasCode(error, LOCK_NOT_AVAILABLE, DEADLOCK)) throw toStatementError(error)
      if (performance.now() + pause > until) throw await locked(client, schema, what, giveUpAfter, error)
    }
    await sleep(pause)
  }
}

async function inTransaction<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED')
  try {
    await client.query(OWN_TIMEOUTS)
    const result = await work()
    await client.query('COMMIT').catch((error) => {
      throw toCallError(error)
    })
    return result
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}

async function locked(
  client: pg.ClientBase,
  schema: string,
  what: string,
  waited: number,
  cause: unknown,
): Promise<DatabaseError> {
  const holders = await holdersOf(client, schema).catch(() => [])
  const list = holders.length > 0 ? `: ${holders.join('; ')}` : ''
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    `${what} was given up after ${Math.round(waited / 1000)} s because other transactions hold locks on the schema "${schema}"${list}; end them (SELECT pg_terminate_backend(pid), or ROLLBACK PREPARED) or wait, then try again`,
    { cause },
  )
}

/** Sessions whose transactions hold locks in the schema, and prepared transactions that do; oldest first. */
async function holdersOf(client: pg.ClientBase, schema: string): Promise<string[]> {
  const { rows } = await client.query(
    `SELECT coalesce('pid ' || a.pid, 'prepared transaction ' || quote_literal(p.gid)) AS holder,
       concat_ws(', ', coalesce(a.usename, p.owner), nullif(a.application_name, ''), a.state,
         'in a transaction since ' || to_char(coalesce(a.xact_start, p.prepared), 'YYYY-MM-DD HH24:MI:SS TZ'),
         string_agg(DISTINCT l.relation::regclass::text, ' ')) AS told
     FROM pg_locks l
     LEFT JOIN pg_stat_activity a USING (pid)
     LEFT JOIN (pg_prepared_xacts p JOIN pg_locks x ON x.locktype = 'transactionid' AND x.transactionid = p.transaction)
       ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
     WHERE l.granted AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
       AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND l.relation IN (
         SELECT c.oid FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v')
       )
     GROUP BY a.pid, a.usename, a.application_name, a.state, a.xact_start, p.gid, p.owner, p.prepared
     ORDER BY coalesce(a.xact_start, p.prepared) LIMIT $2`,
    [quoteIdentifier(schema), MAX_HOLDERS],
  )
  return rows.map(({ holder, told }) => `${holder} (${told})`)
}
