import type { Database, Queryable } from '../postgres/database.ts'
import { toStatementError } from '../postgres/failure.ts'
import type { Home } from './home.ts'
import { arraysOf, type PushedJob } from './push.ts'

/** What a part of a call goes into. */
export interface SameTransaction {
  readonly queue: string
  /** Of the queue, where it is to be created if it is missing. */
  readonly shards: number | undefined
  /** The number of the caller's transaction. */
  readonly transaction: string
  readonly home: Home | undefined
}

/**
 * The number of the transaction that `on` is in, or of the statement's own; undefined on a replica, and where rows don't
 * come as `pg` returns them.
 */
export async function transactionOf(on: Queryable): Promise<string | undefined> {
  const number = await onlyValue(
    on,
    'SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_current_xact_id()::text END AS value',
    [],
  )
  return typeof number === 'string' ? number : undefined
}

/** Pushes where `on` is in that transaction; else resolves to false, and nothing is done. */
export async function pushInSameTransaction(
  { prefix }: Database,
  { queue, shards, transaction, home }: SameTransaction,
  jobs: readonly PushedJob[],
  on: Queryable,
): Promise<boolean> {
  const same = await onlyValue(
    on,
    `CALL ${prefix}.enqueue_many_in_same_transaction($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      transaction,
      queue,
      shards ?? null,
      ...arraysOf(jobs),
      home?.installation ?? null,
      home?.database ?? null,
    ],
  )
  return same !== null
}

/** Aborts that transaction where `on` is in it; whatever it is in where nobody knows of which it was. */
export async function refuseTransaction(
  { prefix }: Database,
  on: Queryable,
  transaction: string | undefined,
): Promise<void> {
  if (transaction) await on.query(`CALL ${prefix}.refuse_transaction($1)`, [transaction])
  // There is no such savepoint.
  else await on.query('ROLLBACK TO lockstep_enqueue_failed', [])
}

/** The only one of the only row, through whatever driver. */
async function onlyValue(on: Queryable, text: string, values: unknown[]): Promise<unknown> {
  try {
    const { rows } = await on.query(text, values)
    const [row] = Array.isArray(rows) ? rows : []
    return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined
  } catch (error) {
    throw toStatementError(error)
  }
}
