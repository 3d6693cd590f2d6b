import { type Adapter, type Members, openInside } from './adapter.ts'
import { pgClient } from './pg-client.ts'
import { postgresJs } from './postgres-js.ts'
import { queryable } from './queryable.ts'

const ADVICE = 'pass the tx that db.transaction() hands to its callback'
/** Drizzle does not know when its transactions have ended, but their connections do. */
const DRIVERS = [pgClient, postgresJs, queryable]

export const drizzle: Adapter = (tx) => {
  const { session, dialect, nestedIndex } = tx as Members
  if (typeof session !== 'object' || session === null || typeof dialect !== 'object') return undefined
  if (typeof nestedIndex !== 'number') return `is a Drizzle database: ${ADVICE}`
  const { client } = session as { readonly client?: unknown }
  if ((typeof client !== 'object' && typeof client !== 'function') || client === null)
    return 'is a Drizzle transaction over a driver without sessions: use node-postgres or postgres.js'
  return (
    openInside('a Drizzle transaction', 'client', client, DRIVERS) ??
    'is a Drizzle transaction over a driver that is not known here: use node-postgres or postgres.js'
  )
}
