import type { Transactions } from '../handler.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, isFunction, type Members, rowsOf } from './adapter.ts'
import { guarded, overPool, type Pool } from './postgres-js-pool.ts'

interface Sql {
  unsafe(text: string, values: readonly Text[]): Promise<unknown>
}

interface Instance<Tx> extends Pool {
  begin(options: string, work: (sql: Tx) => Promise<void>): Promise<unknown>
}

const GIVEN = 'a postgres.js transaction'

/** Transactions of a postgres.js instance. It should serve nothing but handlers, and have a connection for each slot. */
export function transactionsOf<Tx extends object>(sql: Instance<Tx>): Transactions<Tx> {
  const transactions: Transactions<Tx> = {
    given: GIVEN,
    transaction: (work) => sql.begin('isolation level read committed', work),
  }
  return overPool(sql, transactions, guarded)
}

const ADVICE = 'pass the sql that sql.begin() hands to its callback'

/** A connection from `sql.reserve()` may be in a transaction, too. */
export const recognizePostgresJs: Adapter = (tx) => {
  const { unsafe, begin, savepoint, release } = tx as unknown as Members
  if (!isFunction(tx) || !isFunction(unsafe)) return undefined
  if (!isFunction(savepoint) && !isFunction(release))
    return isFunction(begin) ? `is a postgres.js instance: ${ADVICE}` : undefined
  const sql = tx as unknown as Sql
  return {
    given: GIVEN,
    // Applications serialize types in ways of their own, dates above all.
    casts: 'all',
    run: async (text, values) => rowsOf(await sql.unsafe(text, values)),
  }
}
