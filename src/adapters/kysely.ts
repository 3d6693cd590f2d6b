import { randomUUID } from 'node:crypto'
import type { Transactions } from '../handler.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, endedTransaction, isFunction, type Members, rowsOf } from './adapter.ts'

interface KyselyTransaction {
  executeQuery(query: object): Promise<unknown>
}

interface TransactionBuilder<Tx> {
  setIsolationLevel(level: 'read committed'): TransactionBuilder<Tx>
  execute<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

interface Database<Tx> {
  transaction(): TransactionBuilder<Tx>
}

const GIVEN = 'a Kysely transaction'

/** Transactions of a Kysely instance. */
export function transactionsOf<Tx>(db: Database<Tx>): Transactions<Tx> {
  return {
    given: GIVEN,
    transaction: (work) => db.transaction().setIsolationLevel('read committed').execute(work),
  }
}

const ADVICE = 'pass the trx that db.transaction().execute() hands to its callback'

/** Kysely's transactions know when they have ended, and send nothing afterwards. */
export const recognizeKysely: Adapter = (tx) => {
  const { executeQuery, isTransaction } = tx as Members
  if (!isFunction(executeQuery) || isTransaction === undefined) return undefined
  if (isTransaction !== true) return `is a Kysely instance: ${ADVICE}`
  return {
    given: GIVEN,
    // Its dialect may run on postgres.js.
    casts: 'json',
    async run(text, values) {
      try {
        return rowsOf(await (tx as KyselyTransaction).executeQuery(compiled(text, values)))
      } catch (error) {
        throw hasEnded(error) ? endedTransaction(error) : error
      }
    },
  }
}

/** Kysely's own message. */
function hasEnded(error: unknown): error is Error {
  return error instanceof Error && /^Transaction is already (committed|rolled back)$/.test(error.message)
}

/** Mimics Kysely's compiled raw SQL. Loading Kysely would cost every producer, and the caller's version may differ. */
function compiled(text: string, values: readonly Text[]): object {
  const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
  return { sql: text, parameters: [...values], query, queryId: { queryId: randomUUID() } }
}
