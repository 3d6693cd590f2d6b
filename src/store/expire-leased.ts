import { DatabaseError } from '../errors.ts'
import type { Database } from '../postgres/database.ts'
import { insistenceOf, PATIENCE, rowOf } from './insistence.ts'
import { waitingAtMost } from './patience.ts'

/**
 * Nobody is handed again what a consumer has taken with this claim; until it has ended, its holder may still settle it. Resolves to
 * whether the claim was held.
 * @throws DatabaseError if a transaction that has pushed the job stays open
 */
export function expireLeased(database: Database, queue: string, id: string, fence: number): Promise<boolean> {
  const expire = async (longestWait: number) => {
    const [row] = await database.transaction(
      (tx) => database.call<{ expire_leased: boolean }>('expire_leased', [queue, id, fence], tx),
      { begin: waitingAtMost(longestWait) },
    )
    return row!.expire_leased
  }
  const waiting = { row: rowOf(queue, id), until: performance.now() + PATIENCE, refusal: () => heldJob(id) }
  return insistenceOf(database).insist(expire, waiting)
}

export function heldJob(id: string): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    `job "${id}" can’t be changed: a transaction that has pushed it is still open after ${PATIENCE} ms; try again`,
  )
}
