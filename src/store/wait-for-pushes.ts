import type { Database } from '../postgres/database.ts'
import { heldJob } from './expire-leased.ts'
import { insistenceOf, PATIENCE, rowOf } from './insistence.ts'
import { waitingAtMost } from './patience.ts'

/**
 * Waits until no open transaction holds the row of a job, so that what comes next need not. Resolves to whether there is one.
 * @throws DatabaseError `LOCKSTEP_LOCKED` if one does for five seconds; the reason of `signal`
 */
export async function waitForPushes(
  database: Database,
  queue: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  const { prefix } = database
  const text = `SELECT FROM ${prefix}.jobs j WHERE j.queue_id = (SELECT q.queue_id FROM ${prefix}.queues q WHERE q.name = $1)
    AND j.id >= $2 COLLATE "C" AND j.id <= $2 COLLATE "C" ORDER BY j.id FOR NO KEY UPDATE`
  const lock = async (longestWait: number) => {
    const begin = waitingAtMost(longestWait)
    const rows = await database.transaction((tx) => database.query(text, [queue, id], tx), { begin })
    return rows.length > 0
  }
  const until = performance.now() + PATIENCE
  const waiting = { row: rowOf(queue, id), until, refusal: () => heldJob(id), signal }
  const isThere = await insistenceOf(database).insist(lock, waiting)
  // A try that was under way has gone on.
  signal.throwIfAborted()
  return isThere
}
