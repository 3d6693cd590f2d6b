import type { Database, Queryable } from '../postgres/database.ts'
import { isRefusedLock } from '../postgres/failure.ts'
import type { LaneKey, Round, RoundLimits } from './claim.ts'
import { exchange } from './exchange.ts'

/** ms */
const MAX_LOCK_TIMEOUT = 500

/**
 * ms a completion in a handler's transaction waits for a producer's. Below the server's deadlock_timeout: in a
 * deadlock it is always we who give way, never the application.
 */
export async function readLockTimeout(database: Database): Promise<number> {
  const [row] = await database.query<{ timeout: number }>(
    "SELECT extract(epoch FROM current_setting('deadlock_timeout')::interval)::float8 * 1000 AS timeout",
  )
  return Math.max(1, Math.min(MAX_LOCK_TIMEOUT, Math.floor(row!.timeout / 2)))
}

/** A job that claims pass over, since its row is locked whenever they come: due at `performIn`, microseconds since 1970. */
export interface Passed extends RoundLimits {
  readonly key: LaneKey
  readonly performIn: number
}

/**
 * Does something in a transaction that waits for rows which others hold: at most `timeout` ms for each lock in its way, with 0
 * as long as it takes. Resolves to undefined where that was in vain, or ended a deadlock: then nothing was done.
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

/** Claims the first job of a lane that is due at that time or after it, in a transaction that waits for its row. */
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
