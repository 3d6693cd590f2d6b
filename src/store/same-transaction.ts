import type { Database } from '../postgres/database.ts'
import type { Home } from './home.ts'
import { arraysOf, JOBS, PLACE, type PushedJob, placeOf } from './push.ts'
import { type Callable, callThrough, firstValue, runThrough, type Through } from './through.ts'

/** Where a part of a call is pushed to. */
export interface SameTransaction {
  readonly queue: string
  /** Set if the queue must be created when it is missing. */
  readonly shards: number | undefined
  /** The number of the caller's transaction. */
  readonly transaction: string
  readonly home: Home | undefined
}

const MANY_IF_SAME: Callable = {
  kind: 'value',
  name: 'put_many_if_same_transaction',
  types: ['xid8', 'text', 'int4', ...JOBS, ...PLACE],
}
const REFUSE: Callable = { kind: 'procedure', name: 'refuse_transaction', types: ['xid8'] }

/**
 * The number of the transaction that `on` is in, or of the statement's own. Undefined on a replica, and if the driver does
 * not return rows.
 */
export async function transactionOf(on: Through): Promise<string | undefined> {
  const number = firstValue(
    await runThrough(
      on,
      'SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_current_xact_id()::text END AS value',
    ),
  )
  return typeof number === 'string' ? number : undefined
}

/** Pushes if `on` is in that transaction; otherwise does nothing and resolves to false. */
export async function pushInSameTransaction(
  database: Database,
  { queue, shards, transaction, home }: SameTransaction,
  jobs: readonly PushedJob[],
  on: Through,
): Promise<boolean> {
  const values = [transaction, queue, shards ?? null, ...arraysOf(jobs), ...placeOf(home)]
  return firstValue(await callThrough(database, on, MANY_IF_SAME, values)) === 'true'
}

/** Aborts the transaction if `on` is still in it. If its number is unknown, aborts whichever one `on` is in. */
export async function refuseTransaction(
  database: Database,
  on: Through,
  transaction: string | undefined,
): Promise<void> {
  if (transaction) await callThrough(database, on, REFUSE, [transaction])
  // The savepoint does not exist, so the statement fails and aborts the transaction.
  else await runThrough(on, 'ROLLBACK TO lockstep_enqueue_failed')
}
