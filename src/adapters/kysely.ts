import { randomUUID } from 'node:crypto'
import type { Transactions } from '../handler.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, endedTransaction, isFunction, type Members, rowsOf, wordingOf } from './adapter.ts'

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

const ADVICE = 'pass the trx that db.transaction().execute() hands to its callback'
const WORDING = wordingOf(
  'a Kysely transaction',
  ADVICE,
  "begin it with db.transaction().setAccessMode('read write')",
)

/** Transactions of a Kysely instance. */
export function transactionsOf<Tx>(db: Database<Tx>): Transactions<Tx> {
  return {
    given: WORDING.given,
    transaction: (work) => db.transaction().setIsolationLevel('read committed').execute(work),
  }
}

/** Kysely's transactions know when they have ended, and send nothing afterwards. */
export const recognizeKysely: Adapter = (tx) => {
  const { executeQuery, isTransaction, execute, setAccessMode } = tx as Members
  if (isFunction(execute) && isFunction(setAccessMode))
    return `is a builder of Kysely transactions: ${ADVICE}`
  if (!isFunction(executeQuery) || isTransaction === undefined) return undefined
  if (isTransaction !== true) return `is a Kysely instance: ${ADVICE}`
  return {
    ...WORDING,
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
