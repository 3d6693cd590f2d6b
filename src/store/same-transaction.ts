import type { Database, Queryable } from '../postgres/database.ts'
import { toStatementError } from '../postgres/failure.ts'
import type { Home } from './home.ts'
import { arraysOf, type PushedJob } from './push.ts'

/** Where a part of a call is pushed to. */
export interface SameTransaction {
  readonly queue: string
  /** Set if the queue must be created when it is missing. */
  readonly shards: number | undefined
  /** The number of the caller's transaction. */
  readonly transaction: string
  readonly home: Home | undefined
}

/**
 * The number of the transaction that `on` is in, or of the statement's own. Undefined on a replica, and if the driver does
 * not return rows as `pg` does.
 */
export async function transactionOf(on: Queryable): Promise<string | undefined> {
  const number = await onlyValue(
    on,
    'SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_current_xact_id()::text END AS value',
    [],
  )
  return typeof number === 'string' ? number : undefined
}

/** Pushes if `on` is in that transaction; otherwise does nothing and resolves to false. */
export async function pushInSameTransaction(
  { prefix }: Database,
  { queue, shards, transaction, home }: SameTransaction,
  jobs: readonly PushedJob[],
  on: Queryable,
): Promise<boolean> {
  const same = await onlyValue(
    on,
    `CALL ${prefix}.enqueue_many_in_same_transaction($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
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

/** Aborts the transaction if `on` is still in it. If its number is unknown, aborts whichever one `on` is in. */
export async function refuseTransaction(
  { prefix }: Database,
  on: Queryable,
  transaction: string | undefined,
): Promise<void> {
  if (transaction) await on.query(`CALL ${prefix}.refuse_transaction($1)`, [transaction])
  // The savepoint does not exist, so the statement fails and aborts the transaction.
  else await on.query('ROLLBACK TO lockstep_enqueue_failed', [])
}

/** The only value of the only row, with any driver. */
async function onlyValue(on: Queryable, text: string, values: unknown[]): Promise<unknown> {
  try {
    const { rows } = await on.query(text, values)
    const [row] = Array.isArray(rows) ? rows : []
    return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined
  } catch (error) {
    throw toStatementError(error)
  }
}
