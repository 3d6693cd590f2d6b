import { type SqlBool, sql } from 'kysely'
import type { Database, Queryable } from '../postgres/database.ts'
import { conditionsOf, entryOf, type JobFilter, matchingJobs } from './jobs.ts'
import { isOneOf } from './range.ts'
import { run, tables } from './tables.ts'

/** How many entries wait and match, and the last of their ids: a walk that ends there ends. */
export async function countWaiting(
  database: Database,
  queueId: number,
  filter: JobFilter,
): Promise<{ total: number; last: string | null }> {
  const query = matchingWaiting(database, queueId, filter).select(({ fn }) => [
    fn.countAll<number>().as('total'),
    fn.max<string | null>('e.id').as('last'),
  ])
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

/** What waits under an id: the job, or the next round of one that is in work. */
export interface WaitingEntry {
  readonly id: string
  readonly next: boolean
}

/**
 * Locks the next jobs under whose id something waits that matches, in id order like a push. `seen` are those that were
 * found, `entries` what matches now: a row that was waited for may have ended its round, or begun another one, and what
 * waits under the id is something else then. What that is says who holds the lock, not the lease as it reads: a process
 * whose lease seems over may be renewing it, and then its round is not to be touched.
 */
export async function lockWaiting(
  database: Database,
  tx: Queryable,
  queueId: number,
  filter: JobFilter,
  { after, last, limit }: IdSpan,
): Promise<{ seen: string[]; entries: WaitingEntry[] }> {
  let query = matchingWaiting(database, queueId, filter).where('e.id', '<=', last).select('e.id')
  if (after !== undefined) query = query.where('e.id', '>', after)
  const seen = (await run(database, query.orderBy('e.id').limit(limit), tx)).map(({ id }) => id)
  const held = await database.call<HeldRow>('lock_waiting', [queueId, seen, null], tx)
  return { seen, entries: await matchingHeld(database, tx, queueId, filter, held) }
}

interface HeldRow {
  readonly id: string
  /** Null: all of the job. */
  readonly fence: number | null
}

async function matchingHeld(
  database: Database,
  tx: Queryable,
  queueId: number,
  filter: JobFilter,
  held: readonly HeldRow[],
): Promise<WaitingEntry[]> {
  const ids = held.map(({ id }) => id)
  const next = held.map(({ fence }) => fence !== null)
  const rows = sql<{ id: string; next: boolean }>`unnest(${ids}::text[], ${next}::boolean[])`
  const entries = tables(database)
    .selectFrom('jobs as j')
    .innerJoin(rows.as<'n'>(sql`n(id, next)`), 'n.id', 'j.id')
    .where('j.queue_id', '=', queueId)
    // Said once more, so that they are looked up: for a join alone, all of the queue might be read.
    .where(({ and }) => and(isOneOf('j.id', ids, 'text')))
    .select(entryOf(sql`n.next`, sql`'waiting'`))
  const query = tables(database)
    .selectFrom(entries.as('e'))
    .where(({ and }) => and(conditionsOf(filter)))
    .select(['e.id', 'e.next'])
  return run(database, query, tx)
}

/** What a person may do to what waits: functions that take ids and return how many it was done to. */
export type JobAction = 'perform_now' | 'delete_jobs' | 'kill'

export async function actOnWaiting(
  database: Database,
  tx: Queryable,
  action: JobAction,
  queueId: number,
  entries: readonly WaitingEntry[],
): Promise<number> {
  const columns = [entries.map(({ id }) => id), entries.map(({ next }) => next)]
  const [row] = await database.call<Record<JobAction, number>>(action, [queueId, ...columns], tx)
  return row![action]
}

function matchingWaiting(database: Database, queueId: number, filter: JobFilter) {
  const { state = 'waiting', ...rest } = filter
  const query = matchingJobs(database, queueId, { ...rest, state: 'waiting' })
  return state === 'waiting' ? query : query.where(sql<SqlBool>`false`)
}
