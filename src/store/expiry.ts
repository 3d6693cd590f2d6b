import type { Database } from '../postgres/database.ts'

/** Where the sweep of a queue goes on. `after`: microseconds since 1970. */
export interface ExpiryCursor {
  readonly queueId: number
  readonly after: number | null
  readonly afterId: string
}

/** What a call has removed of a queue. */
export interface ExpiredRemoved extends ExpiryCursor {
  /** The queue's name. */
  readonly queue: string
  readonly payloads: number
  /** Jobs of which nothing was left. */
  readonly jobs: number
  /** There may be more behind the cursor. */
  readonly isMore: boolean
}

/** Removes what has expired of jobs that wait, in all queues, from these cursors on; elsewhere from the beginning. */
export async function removeExpired(
  database: Database,
  cursors: readonly ExpiryCursor[],
  most: number,
): Promise<ExpiredRemoved[]> {
  return database.query<ExpiredRemoved>(
    `SELECT e.queue_id AS "queueId", e.queue, e.payloads, e.jobs, e.after, e.after_id AS "afterId", e.is_more AS "isMore"
     FROM ${database.prefix}.remove_expired($1, $2, $3, $4) e`,
    [
      cursors.map(({ queueId }) => queueId),
      cursors.map(({ after }) => after),
      cursors.map(({ afterId }) => afterId),
      most,
    ],
  )
}
