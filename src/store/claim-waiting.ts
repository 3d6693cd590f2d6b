import type { Database, Queryable } from '../postgres/database.ts'
import type { LaneKey, Round, RoundLimits } from './claim.ts'
import { exchange } from './exchange.ts'

/** A job whose row was locked at every claim, so that claims passed over it. `performIn`: in microseconds since 1970. */
export interface Passed extends RoundLimits {
  readonly key: LaneKey
  readonly performIn: number
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
