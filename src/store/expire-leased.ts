import { DatabaseError } from '../errors.ts'
import type { Database } from '../postgres/database.ts'
import { patiently } from './patience.ts'

/** ms that a producer's transaction is waited for. */
const LONGEST_WAIT = 5_000

/**
 * Nobody is handed again what a consumer has taken with this claim; until it has ended, its holder may still settle it. Resolves to
 * whether the claim was held.
 * @throws DatabaseError if a transaction that has pushed the job stays open
 */
export async function expireLeased(
  database: Database,
  queue: string,
  id: string,
  fence: number,
): Promise<boolean> {
  const rows = await patiently(database, LONGEST_WAIT, (tx) =>
    database.call<{ expire_leased: boolean }>('expire_leased', [queue, id, fence], tx),
  )
  if (rows) return rows[0]!.expire_leased
  throw new DatabaseError(
    'LOCKSTEP_LOCKED',
    `job "${id}" can’t be acknowledged: a transaction that has pushed it is still open after ${LONGEST_WAIT} ms; try again`,
  )
}
