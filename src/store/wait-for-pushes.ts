import type { Database, Queryable } from '../postgres/database.ts'
import { heldJob } from './expire-leased.ts'
import { insistenceOf, PATIENCE, rowOf } from './insistence.ts'
import { waitingAtMost } from './patience.ts'

/**
 * Waits until no open transaction holds the row of a job, so that what comes next need not. Resolves to whether there is such a job, be it
 * dead.
 * @throws DatabaseError `LOCKSTEP_LOCKED` if one does for five seconds; the reason of `signal`
 */
export async function waitForPushes(
  database: Database,
  queue: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  const { prefix } = database
  const ofQueue = `queue_id = (SELECT q.queue_id FROM ${prefix}.queues q WHERE q.name = $1)`
  const find = (where: string) => (tx: Queryable) =>
    database.query(`SELECT FROM ${prefix}.${where}`, [queue, id], tx)
  const lockJob = find(
    `jobs j WHERE j.${ofQueue} AND j.id >= $2 COLLATE "C" AND j.id <= $2 COLLATE "C" ORDER BY j.id FOR NO KEY UPDATE`,
  )
  const findDead = find(`morgue m WHERE m.${ofQueue} AND m.job_id = $2 COLLATE "C" LIMIT 1`)
  const lock = (longestWait: number) =>
    database.transaction(async (tx) => (await lockJob(tx)).length + (await findDead(tx)).length > 0, {
      begin: waitingAtMost(longestWait),
    })
  const until = performance.now() + PATIENCE
  const waiting = { row: rowOf(queue, id), until, refusal: () => heldJob(id), signal }
  const isThere = await insistenceOf(database).insist(lock, waiting)
  // A try that was under way has gone on.
  signal.throwIfAborted()
  return isThere
}
