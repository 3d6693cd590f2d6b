import type { Database, Queryable } from '../postgres/database.ts'
import { isOutOfTime } from '../postgres/failure.ts'

/** ms */
const MAX_LOCK_TIMEOUT = 500

/**
 * ms that a completion in a handler's transaction waits for a producer's. Below the server's deadlock_timeout, so that in
 * a deadlock we give way, never the application.
 */
export async function readLockTimeout(database: Database): Promise<number> {
  const [row] = await database.query<{ timeout: number }>(
    "SELECT extract(epoch FROM current_setting('deadlock_timeout')::interval)::float8 * 1000 AS timeout",
  )
  return Math.max(1, Math.min(MAX_LOCK_TIMEOUT, Math.floor(row!.timeout / 2)))
}

/** What a transaction begins with that waits for each lock so many ms at most; 0: as long as it takes. Undefined: as others do. */
export function waitingAtMost(ms: number | undefined): string {
  return ms === undefined ? '' : `SET LOCAL lock_timeout = ${ms}`
}

/**
 * Runs `work` in a transaction that waits for locked rows instead of skipping them, at most `timeout` ms for each lock; 0:
 * as long as it takes. Resolves to undefined if it did not get a lock, or was in a deadlock: nothing was done.
 */
export async function patiently<T>(
  database: Database,
  timeout: number,
  work: (tx: Queryable) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await database.transaction(work, { begin: waitingAtMost(timeout) })
  } catch (error) {
    if (isOutOfTime(error)) return undefined
    throw error
  }
}
