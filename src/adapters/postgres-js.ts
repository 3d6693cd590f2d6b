import type { Transactions } from '../handler.ts'
import type { Text } from '../store/through.ts'
import {
  type Adapter,
  BEGIN_READ_WRITE,
  isFunction,
  type Members,
  rowsOf,
  type Wording,
  wordingOf,
} from './adapter.ts'
import { guarded, overPool, type Pool } from './postgres-js-pool.ts'

interface Sql {
  unsafe(text: string, values: readonly Text[]): Promise<unknown>
}

interface Instance<Tx> extends Pool {
  begin(options: string, work: (sql: Tx) => Promise<void>): Promise<unknown>
}

const ADVICE = 'pass the sql that sql.begin() hands to its callback'
const WORDING = wordingOf('a postgres.js transaction', ADVICE, "begin it with sql.begin('read write', …)")

/** Transactions of a postgres.js instance. It should serve nothing but handlers, and have a connection for each slot. */
export function transactionsOf<Tx extends object>(sql: Instance<Tx>): Transactions<Tx> {
  const transactions: Transactions<Tx> = {
    given: WORDING.given,
    transaction: (work) => sql.begin('isolation level read committed', work),
  }
  return overPool(sql, transactions, guarded)
}

/** What `sql.reserve()` gives has the name of a transaction, since it may be in one. */
const RESERVED: Wording = {
  ...WORDING,
  ended:
    'is a connection of sql.reserve() of postgres.js that is in no transaction: send BEGIN on it before the call, and COMMIT after it',
  writable: BEGIN_READ_WRITE,
}

/** A connection from `sql.reserve()` may be in a transaction, too. */
export const recognizePostgresJs: Adapter = (tx) => {
  const { unsafe, begin, savepoint, release } = tx as unknown as Members
  if (!isFunction(tx) || !isFunction(unsafe)) return undefined
  if (!isFunction(savepoint) && !isFunction(release))
    return isFunction(begin) ? `is a postgres.js instance: ${ADVICE}` : undefined
  const sql = tx as unknown as Sql
  return {
    ...(isFunction(savepoint) ? WORDING : RESERVED),
    // Applications serialize types in ways of their own, dates above all.
    casts: 'all',
    run: async (text, values) => rowsOf(await sql.unsafe(text, values)),
  }
}
