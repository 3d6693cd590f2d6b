import { randomUUID } from 'node:crypto'
import { DatabaseError } from '../errors.ts'
import type { Database } from '../postgres/database.ts'
import { IDLE_TIMEOUT } from '../postgres/session.ts'
import type { Home } from './home.ts'
import { placeOf } from './push.ts'
import { type Callable, callThrough, firstValue, runThrough, type Settings, type Through } from './through.ts'

const PROCESS = randomUUID()
let names = 0

/**
 * A new name for the transaction of a round. Rounds of one claim have the same fence, and a library may mix up sessions, so a
 * fence would not do.
 */
export function newName(): string {
  names += 1
  return `${PROCESS}.${names}`
}

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
  /** The name of a round that has begun in it already; null if none has. */
  readonly others: string | null
}

/** Names the round in a transaction that the application's library has begun. */
export async function nameRound(on: Through, name: string): Promise<Begun> {
  return askJson(
    on,
    `SELECT pg_catalog.json_build_object('pid', pg_catalog.pg_backend_pid(),
      'startedAt', extract(epoch FROM pg_catalog.transaction_timestamp())::text,
      'isolation', pg_catalog.current_setting('transaction_isolation'),
      'others', nullif(pg_catalog.current_setting('lockstep.round', true), ''))::text,
      pg_catalog.set_config('lockstep.round', '${name}', true)`,
  )
}

const REQUIRE_TRANSACTION: Callable = {
  kind: 'procedure',
  name: 'require_transaction',
  types: ['uuid', 'text'],
}

/**
 * Goes on only in an open transaction that may write, in the database of `home`, if that is known.
 * @throws DatabaseError `LOCKSTEP_BAD_TRANSACTION`
 */
export async function requireTransaction(
  database: Database,
  on: Through,
  home: Home | undefined,
): Promise<void> {
  await callThrough(database, on, REQUIRE_TRANSACTION, placeOf(home))
}

/** Which round's transaction this is, and in which session. */
export interface Place {
  /** null if it's none of a round. */
  readonly round: string | null
  readonly pid: number
}

/** Rejects if the transaction is aborted. */
export function placeOfRound(on: Through): Promise<Place> {
  return askJson(on, `SELECT pg_catalog.json_build_object(${PLACE})::text`)
}

const PLACE = `'round', nullif(pg_catalog.current_setting('lockstep.round', true), ''), 'pid', pg_catalog.pg_backend_pid()`

/** What is known of a handler's transaction when the handler has ended. */
export interface Ready extends Place {
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
        ${PLACE},
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

/** What has become of a transaction; null if it's too long ago to know. */
export async function stateOf(
  database: Database,
  transaction: string,
): Promise<'in progress' | 'committed' | 'aborted' | null> {
  const [row] = await database.prepared<{ state: 'in progress' | 'committed' | 'aborted' | null }>(
    'SELECT pg_catalog.pg_xact_status($1::xid8) AS state',
    [transaction],
  )
  return row!.state
}

async function askJson<T>(on: Through, text: string): Promise<T> {
  const answer = firstValue(await runThrough(on, text))
  if (typeof answer === 'string') return JSON.parse(answer)
  // As some do when the connection is lost.
  throw new DatabaseError('LOCKSTEP_CONNECTION', 'the library of a handler’s transaction gave no answer')
}
