import { DatabaseError } from '../errors.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { insistenceOf, PATIENCE } from './insistence.ts'
import { waitingAtMost } from './patience.ts'

/** What each job has from now on, in its headers. */
export interface Respawning {
  readonly tries: number
  /** When it expires, in ms since 1970; 0: never. */
  readonly expires: number
}

/** Most payloads of one transaction. */
const MOST_AT_ONCE = 1_000

/**
 * Moves the payloads that died first back to their jobs, in the order of their deaths. Those of jobs that somebody's open transaction
 * holds are passed over, and waited for if there are no others; what is held still isn't counted. `until`: when patience ends, by the
 * monotonic clock; in five seconds by default. Returns how many.
 * @throws DatabaseError `LOCKSTEP_LOCKED` if all are held: nothing was done
 */
export async function respawnInTime(
  database: Database,
  queue: string,
  most: number,
  headers: Respawning,
  until = performance.now() + PATIENCE,
): Promise<number> {
  let count = 0
  const attempt = (longestWait: number) =>
    database.transaction(
      (tx) => respawn(database, queue, Math.min(most - count, MOST_AT_ONCE), headers, tx),
      { begin: waitingAtMost(longestWait) },
    )
  try {
    for (let back = 1; count < most && back > 0; count += back)
      back = await insistenceOf(database).insist(attempt, { row: undefined, until, refusal })
  } catch (error) {
    if (count === 0 || !hasCode(error, 'LOCKSTEP_LOCKED')) throw error
  }
  return count
}

/** The same in one transaction, `most` at once. Waits for what is held, unless the transaction has a time-out for locks. */
export async function respawn(
  database: Database,
  queue: string,
  most: number,
  headers: Respawning,
  tx?: Queryable,
): Promise<number> {
  const expiresIn = headers.expires > 0 ? new Date(headers.expires) : null
  const [row] = await database.call<{ respawn: number }>('respawn', [queue, most, headers, expiresIn], tx)
  return row!.respawn
}

function refusal(cause: unknown): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    'transactions that are still open have pushed the ids of all dead jobs: end them, or try again later',
    { cause },
  )
}
