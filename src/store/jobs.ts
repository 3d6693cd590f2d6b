import { sql } from 'kysely'
import type { PayloadHeaders } from '../job.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { attemptsIn, type FailedAttempt, shownAttempts } from './attempts.ts'
import { conditionsOf, entryOf, matchingJobs, matchingWaiting } from './entries.ts'
import { sourceOf } from './jobs-in-order.ts'
import {
  beyond,
  decodeCursor,
  encodeCursor,
  type Found,
  type FullPage,
  orderOf,
  placeOf,
  type Range,
  type SortColumn,
} from './page.ts'
import { isOneOf } from './range.ts'
import { type PayloadsShown, shown, whole } from './shown-job.ts'
import { countUpTo, run, tables } from './tables.ts'
import { dateOrNull } from './time.ts'

/**
 * Selects jobs of a queue for which all conditions hold; without conditions, all jobs. What was pushed into a job in work
 * waits as a separate entry, the job's next round. Conditions apply to each entry's own values.
 */
export interface JobFilter {
  /** An empty list matches no job. */
  readonly ids?: readonly string[]
  /** Compared bytewise. */
  readonly id?: Range<string>
  readonly performIn?: Range<Date>
  /** −1: never failed, 0: failed once. */
  readonly retryCount?: Range<number>
  /** `working`: in work by a live process. Jobs that a dead process left wait, and so do next rounds of jobs in work. */
  readonly state?: 'waiting' | 'working'
  /** Jobs of this tenant; null: those without one. */
  readonly tenant?: string | null
}

/**
 * A job that waits or is in work. If there was a push into a job in work, its id is found twice: as `working`, and as
 * `waiting` for the next round. That starts after this round has ended, at its own `performIn` or later.
 */
export interface FoundJob<Payload = unknown> {
  readonly id: string
  /** Counted from 0. */
  readonly shard: number
  /** 0 unless a push, or a rule for its tenant, named another. */
  readonly lane: number
  /** Null if it has none. */
  readonly tenant: string | null
  /** When it is or was due. */
  readonly performIn: Date
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  /** How often in a row a process died with the job in work. */
  readonly crashes: number
  /** The error of the last failure, until the next success; null for the next round of a job in work. */
  readonly error: string | null
  /** What was pushed into a job in work is `waiting`, as an entry of its own. */
  readonly state: 'waiting' | 'working'
  /** When it was claimed; null while it waits. */
  readonly claimedAt: Date | null
  /** The process that has it in work, 0 if a consumer has claimed it; null while it waits. */
  readonly processId: number | null
  /** When the lease of a consumer's claim ends; null if none has claimed it. */
  readonly leaseEndsAt: Date | null
  /** The fence of the round in work, which its handler has in its context; null while it waits. */
  readonly fence: number | null
  /** Sorted by score. For a job in work, the payloads of this round. */
  readonly payloads: {
    payload: Payload
    score: number
    headers?: PayloadHeaders
    /** When it expires, in ms since 1970. Missing if it never does. */
    expiresIn?: number
  }[]
  /** Since the last success, the newest first, ten at most. Only if they were asked for. */
  readonly attempts?: readonly FailedAttempt[]
}

export type JobSort = 'id' | 'performIn' | 'retryCount'

/** Includes the state, since an id may have two entries. */
const KEY: readonly SortColumn[] = [
  { column: 'e.id', type: 'text' },
  { column: 'e.state', type: 'state' },
]
const SORTS: Readonly<Record<JobSort, readonly SortColumn[]>> = {
  id: KEY,
  performIn: [{ column: 'e.perform_in', type: 'time' }, ...KEY],
  retryCount: [{ column: 'e.retry_count', type: 'integer' }, ...KEY],
}

/** @throws OptionError for a cursor of another sort */
export function findJobs(
  database: Database,
  queueId: number,
  filter: JobFilter,
  page: FullPage<JobSort>,
  withAttempts = false,
): Promise<Found<FoundJob>> {
  return findJobsAs(database, queueId, filter, page, whole, withAttempts)
}

/** @throws OptionError for a cursor of another sort */
export async function findJobsAs<Shown>(
  database: Database,
  queueId: number,
  filter: JobFilter,
  page: FullPage<JobSort>,
  show: PayloadsShown<Shown>,
  withAttempts = false,
): Promise<Found<Omit<FoundJob, 'payloads'> & { payloads: Shown }>> {
  const { by, direction, after, limit } = page
  const columns = SORTS[by]
  const place = after === undefined ? undefined : decodeCursor(by, columns, after)
  const source = sourceOf(database, queueId, filter, { by, direction, place, limit: limit + 1 })
  let part = matchingJobs(database, queueId, filter, source).selectAll('e')
  if (place) {
    part = part.where(beyond(columns, place, direction))
    // No index includes the state, so none can start at this place. The jobs' own index can start at its id.
    if (by === 'id') part = part.where('e.id', direction === 'asc' ? '>=' : '<=', place[0]!)
  }
  const order = orderOf(columns, direction)
  // The outer query looks up payloads, so that it does so only for the page's rows.
  const query = tables(database)
    .selectFrom(
      part
        .orderBy(order)
        .limit(limit + 1)
        .as('e'),
    )
    .select(shown(database, show))
    .select(shownAttempts(database.schema, 'e', withAttempts).as('attempts'))
    .select(placeOf(columns).as('place'))
    .orderBy(order)
  const rows = await run(database, query)
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const items = rows
    .slice(0, limit)
    .map(({ place, performIn, claimedAt, leaseEndsAt, payloads, attempts, ...job }) => ({
      ...job,
      ...attemptsIn(attempts),
      payloads: payloads as Shown,
      performIn: new Date(performIn),
      claimedAt: dateOrNull(claimedAt),
      leaseEndsAt: dateOrNull(leaseEndsAt),
    }))
  return { items, next: last && encodeCursor(by, last.place) }
}

/** The number of waiting entries that match, and the last id, at which a walk ends. */
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

/** The number of entries that match, but no more than `most`. */
export async function countJobs(
  database: Database,
  queueId: number,
  filter: JobFilter,
  most: number,
): Promise<number> {
  return countUpTo(database, matchingJobs(database, queueId, filter).select('e.id').limit(most))
}

/** A range of the ids of a queue, in bytewise order. */
export interface IdSpan {
  /** Undefined: from the first. */
  readonly after: string | undefined
  readonly last: string
  readonly limit: number
}

/** A waiting job, or (`next`) the next round of a job in work. */
export interface WaitingEntry {
  readonly id: string
  readonly next: boolean
}

/** The next ids with a matching entry that waits. */
export async function listWaiting(
  database: Database,
  queueId: number,
  filter: JobFilter,
  { after, last, limit }: IdSpan,
): Promise<string[]> {
  let query = matchingWaiting(database, queueId, filter).where('e.id', '<=', last).select('e.id')
  if (after !== undefined) query = query.where('e.id', '>', after)
  return (await run(database, query.orderBy('e.id').limit(limit))).map(({ id }) => id)
}

/**
 * Locks ids in their order, like a push. Resolves to the entries that match after the lock. Since they were listed, a round may have
 * ended or another one begun, so that a different entry waits now. Who holds the lock decides which one it is, not the lease as it
 * reads: a process whose lease seems over may be renewing it, and then its round must not be touched.
 */
export async function lockWaiting(
  database: Database,
  tx: Queryable,
  queueId: number,
  filter: JobFilter,
  ids: readonly string[],
): Promise<WaitingEntry[]> {
  const held = await database.call<HeldRow>('lock_waiting', [queueId, ids, null], tx)
  return matchingHeld(database, tx, queueId, filter, held)
}

interface HeldRow {
  readonly id: string
  /** Null: the whole job. */
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
