import type { Database } from '../postgres/database.ts'
import { heldJob } from './expire-leased.ts'
import { insistenceOf, PATIENCE, rowOf } from './insistence.ts'
import { waitingAtMost } from './patience.ts'

/**
 * Waits until no open transaction holds the row of a job, so that what comes next need not.
 * @throws DatabaseError `LOCKSTEP_LOCKED` if one does for five seconds
 */
export async function waitForPushes(database: Database, queue: string, id: string): Promise<void> {
  const { prefix } = database
  const lock = (longestWait: number) =>
    database.transaction(
      (tx) =>
        database.query(
          `SELECT FROM ${prefix}.jobs j WHERE j.queue_id = (SELECT q.queue_id FROM ${prefix}.queues q WHERE q.name = $1)
             AND j.id >= $2 COLLATE "C" AND j.id <= $2 COLLATE "C" ORDER BY j.id FOR NO KEY UPDATE`,
          [queue, id],
          tx,
        ),
      { begin: waitingAtMost(longestWait) },
    )
  const waiting = { row: rowOf(queue, id), until: performance.now() + PATIENCE, refusal: () => heldJob(id) }
  await insistenceOf(database).insist(lock, waiting)
}
