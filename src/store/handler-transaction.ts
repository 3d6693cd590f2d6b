import type { Database } from '../postgres/database.ts'
import { IDLE_TIMEOUT } from '../postgres/session.ts'
import type { Home } from './home.ts'
import { placeOf } from './push.ts'
import { type Callable, callThrough, firstValue, runThrough, type Settings, type Through } from './through.ts'

/** The name disappears with the transaction it was set in, and so shows whether the handler has ended that itself. */
export function beginRound(name: string): string {
  return `SET LOCAL lockstep.round = '${name}'`
}

/** A transaction of the application's in which a round has begun. */
export interface Begun {
  readonly pid: number
  /** s since 1970, with all decimals. */
  readonly startedAt: string
  readonly isolation: string
}

/** Names the round in a transaction that the application's library has begun. */
export async function nameRound(on: Through, name: string): Promise<Begun> {
  return askJson(
    on,
    `SELECT pg_catalog.json_build_object('pid', pg_catalog.pg_backend_pid(),
      'startedAt', extract(epoch FROM pg_catalog.transaction_timestamp())::text,
      'isolation', pg_catalog.current_setting('transaction_isolation'))::text,
      pg_catalog.set_config('lockstep.round', '${name}', true)`,
  )
}

const REQUIRE_TRANSACTION: Callable = {
  kind: 'procedure',
  name: 'require_transaction',
  types: ['uuid', 'text'],
}

/**
 * Goes on only in an open transaction that may write, in the database of `home`.
 * @throws DatabaseError `LOCKSTEP_BAD_TRANSACTION`
 */
export async function requireTransaction(database: Database, on: Through, home: Home): Promise<void> {
  await callThrough(database, on, REQUIRE_TRANSACTION, placeOf(home))
}

/** The name of the round whose transaction this is, if it goes on. Rejects if it is aborted. */
export async function roundOf(on: Through): Promise<string | null> {
  return firstValue(await runThrough(on, ROUND)) as string | null
}

const ROUND = `SELECT nullif(pg_catalog.current_setting('lockstep.round', true), '') AS round`

/** What is known of a handler's transaction when the handler has ended. */
export interface Ready {
  readonly round: string | null
  /** Its number, a decimal. */
  readonly transaction: string
  /** What the handler's statements had, and what the checks of a COMMIT get again. */
  readonly settings: Settings
}

/**
 * Called after the handler. Sets what the completion needs. Rejects if the transaction is aborted. `lockTimeout`: ms.
 *
 * The old settings are read before: only what is materialized is sure to be.
 */
export async function readyToComplete(on: Through, lockTimeout: number): Promise<Ready> {
  return askJson(
    on,
    `WITH ready AS MATERIALIZED (SELECT pg_catalog.json_build_object(
        'round', nullif(pg_catalog.current_setting('lockstep.round', true), ''),
        'transaction', pg_catalog.pg_current_xact_id()::text,
        'settings', pg_catalog.json_build_object(
          'lock_timeout', pg_catalog.current_setting('lock_timeout'),
          'statement_timeout', pg_catalog.current_setting('statement_timeout')))::text AS ready)
    SELECT ready, pg_catalog.set_config('lock_timeout', '${lockTimeout}', true),
      pg_catalog.set_config('statement_timeout', '0', true),
      pg_catalog.set_config('idle_in_transaction_session_timeout', '${IDLE_TIMEOUT}', true),
      pg_catalog.set_config('client_encoding', 'UTF8', true) FROM ready`,
  )
}

/**
 * Cancels the statement under way in a transaction, unless that has ended. Does nothing where the role of the worker has no
 * right to see or to cancel it.
 */
export async function cancel(database: Database, { pid, startedAt }: Begun): Promise<void> {
  await database.query(
    `SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity
     WHERE pid = $1 AND extract(epoch FROM xact_start)::text = $2`,
    [pid, startedAt],
  )
}

/** Whether a transaction has been committed. */
export async function isCommitted(database: Database, transaction: string): Promise<boolean> {
  const [row] = await database.prepared<{ status: string | null }>(
    'SELECT pg_catalog.pg_xact_status($1::xid8) AS status',
    [transaction],
  )
  return row!.status === 'committed'
}

async function askJson<T>(on: Through, text: string): Promise<T> {
  return JSON.parse(firstValue(await runThrough(on, text)) as string)
}
