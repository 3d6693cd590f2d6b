import type { Transactions } from '../handler.ts'
import { type Adapter, isFunction, type Members, openInside, wordingOf } from './adapter.ts'
import { isPool, recognizeClient } from './pg-client.ts'
import { recognizePostgresJs } from './postgres-js.ts'
import { guarded, overPool, type Pool } from './postgres-js-pool.ts'
import { recognizeQueryable } from './queryable.ts'

interface Database<Tx, Config> {
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: Config): Promise<T>
}

const ADVICE = 'pass the tx that db.transaction() hands to its callback'
const WORDING = wordingOf(
  'a Drizzle transaction',
  ADVICE,
  "begin it with db.transaction(…, { accessMode: 'read write' })",
)

/** Transactions of a Drizzle database over node-postgres or postgres.js. `config`: as for `db.transaction`. */
export function transactionsOf<Tx, Config>(db: Database<Tx, Config>, config?: Config): Transactions<Tx> {
  const transactions: Transactions<Tx> = {
    given: WORDING.given,
    transaction: (work) => db.transaction(work, config),
  }
  const { $client } = db as unknown as Members
  if (!isPostgresJs($client)) return transactions
  return overPool($client, transactions, (tx, loss) => {
    // Each transaction has a session of its own.
    const { session } = tx as { session: { client: object } }
    session.client = guarded(session.client, loss)
    return tx
  })
}

function isPostgresJs(client: unknown): client is Pool {
  return isFunction(client) && isFunction((client as unknown as Members).unsafe)
}

/** Drizzle does not know when its transactions have ended, but their connections do. */
const DRIVERS = [recognizeClient, recognizePostgresJs, recognizeQueryable]

export const recognizeDrizzle: Adapter = (tx) => {
  const { session, dialect, nestedIndex } = tx as Members
  if (typeof session !== 'object' || session === null || typeof dialect !== 'object') return undefined
  if (typeof nestedIndex !== 'number') return `is a Drizzle database: ${ADVICE}`
  const { client } = session as { readonly client?: unknown }
  if ((typeof client !== 'object' && typeof client !== 'function') || client === null)
    return 'is a Drizzle transaction over a driver without sessions: use node-postgres or postgres.js'
  // Drizzle knows a pool by the name of its class.
  if (isPool(client))
    return 'is a Drizzle transaction over a pool that Drizzle takes for a client, so each statement is a transaction of its own: create the Drizzle database from a pg.Pool itself'
  return (
    openInside(WORDING, client, DRIVERS) ??
    'is a Drizzle transaction over a driver that is not known here: use node-postgres or postgres.js'
  )
}
