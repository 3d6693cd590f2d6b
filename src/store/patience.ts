import type { Database, Queryable } from '../postgres/database.ts'
import { isRefusedLock } from '../postgres/failure.ts'
import type { LaneKey, Round, RoundLimits } from './claim.ts'
import { exchange } from './exchange.ts'

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

/** A job whose row was locked at every claim, so that claims passed over it. `performIn`: in microseconds since 1970. */
export interface Passed extends RoundLimits {
  readonly key: LaneKey
  readonly performIn: number
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
    return await database.transaction(work, { begin: `SET LOCAL lock_timeout = ${timeout}` })
  } catch (error) {
    if (isRefusedLock(error)) return undefined
    throw error
  }
}

/** Claims the first job of a lane that is due at `performIn` or later, in a transaction that waits for its row. */
export async function claimWaiting(
  database: Database,
  tx: Queryable,
  processId: number,
  { key, performIn, ...limits }: Passed,
): Promise<Round[]> {
  const cursor = { after: performIn - 1, afterId: '' }
  const place = [key.queueId, key.shard, key.lane, cursor.after, cursor.afterId]
  await database.call('wait_for', [processId, ...place], tx)
  const { claims } = await exchange(database, processId, [], [{ ...limits, key, cursor, count: 1 }], tx)
  return claims[0]!.rounds
}
