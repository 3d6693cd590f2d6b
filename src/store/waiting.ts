import type { Database, Queryable } from '../postgres/database.ts'
import { type JobFilter, matchingJobs } from './jobs.ts'
import { run } from './tables.ts'

/** How many waiting jobs match, and the last of their ids: a walk that ends there ends. */
export async function countWaiting(
  database: Database,
  queueId: number,
  filter: JobFilter,
): Promise<{ total: number; last: string | null }> {
  const query = matchingJobs(database, queueId, filter)
    .where('p.process_id', 'is', null)
    .select(({ fn }) => [fn.countAll<number>().as('total'), fn.max<string | null>('j.id').as('last')])
  const [row] = await run(database, query)
  return row!
}

/** A part of the ids of a queue, in their bytewise order. */
export interface IdSpan {
  /** Undefined: from the first. */
  readonly after: string | undefined
  readonly last: string
  readonly limit: number
}

/**
 * Locks the next waiting jobs that match, in id order like a push, and returns their ids. The filter is looked
 * at again on the newest version of a row that was waited for.
 */
export async function lockWaiting(
  database: Database,
  tx: Queryable,
  queueId: number,
  filter: JobFilter,
  { after, last, limit }: IdSpan,
): Promise<string[]> {
  let query = matchingJobs(database, queueId, filter)
    .where('p.process_id', 'is', null)
    .where('j.id', '<=', last)
    .select('j.id')
  if (after !== undefined) query = query.where('j.id', '>', after)
  const rows = await run(database, query.orderBy('j.id').limit(limit).forUpdate('j'), tx)
  return rows.map(({ id }) => id)
}

/** What a person may do to waiting jobs: functions that take their ids and return how many it was done to. */
export type JobAction = 'perform_now' | 'delete_jobs' | 'kill'

export async function actOnWaiting(
  database: Database,
  tx: Queryable,
  action: JobAction,
  queueId: number,
  ids: readonly string[],
): Promise<number> {
  const [row] = await database.call<Record<JobAction, number>>(action, [queueId, ids], tx)
  return row![action]
}
