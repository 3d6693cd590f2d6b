import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
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
import { inRange, inTime, isOneOf } from './range.ts'
import { run, tables } from './tables.ts'

/**
 * Which jobs of a queue: all conditions hold; without any, all jobs. What was pushed into a job in work waits as an entry
 * of its own, the job's next round: conditions are on the values of that, or of the round in work.
 */
export interface JobFilter {
  /** An empty list names no job. */
  readonly ids?: readonly string[]
  /** Bytewise. */
  readonly id?: Range<string>
  readonly performIn?: Range<Date>
  /** −1: never failed, 0: failed once. */
  readonly retryCount?: Range<number>
  /** In work means by a live process; what a dead one left waits, and so does the next round of what is in work. */
  readonly state?: 'waiting' | 'working'
}

/**
 * What waits under an id, or is in work. An id in work into which was pushed is found twice: `working`, and `waiting` as
 * its next round, which starts when this one has ended, at its `performIn` or later.
 */
export interface FoundJob {
  readonly id: string
  readonly shard: number
  readonly lane: number
  readonly performIn: Date
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  /** How often in a row a process died with the job in work. */
  readonly crashes: number
  /** Of the last failure, until the next success; null for the next round of what is in work. */
  readonly error: string | null
  readonly state: 'waiting' | 'working'
  /** Since when it is in work; null while it waits. */
  readonly claimedAt: Date | null
  /** By score. Of a job in work those of this round. */
  readonly payloads: { payload: unknown; score: number }[]
}

export type JobSort = 'id' | 'performIn' | 'retryCount'

/** The two entries of one id differ in their state. */
const KEY: readonly SortColumn[] = [
  { column: 'e.id', type: 'text' },
  { column: 'e.state', type: 'state' },
]
const SORTS: Readonly<Record<JobSort, readonly SortColumn[]>> = {
  id: KEY,
  performIn: [{ column: 'e.perform_in', type: 'time' }, ...KEY],
  retryCount: [{ column: 'e.retry_count', type: 'integer' }, ...KEY],
}

/** @throws OptionError for a cursor that isn't one of this sort */
export async function findJobs(
  database: Database,
  queueId: number,
  filter: JobFilter,
  page: FullPage<JobSort>,
): Promise<Found<FoundJob>> {
  const { by, direction, after, limit } = page
  const columns = SORTS[by]
  let part = matchingJobs(database, queueId, filter).selectAll('e')
  if (after !== undefined) {
    const place = decodeCursor(by, columns, after)
    part = part.where(beyond(columns, place, direction))
    // No index has the state, so none could start at the place; at its id, that of the jobs can.
    if (by === 'id') part = part.where('e.id', direction === 'asc' ? '>=' : '<=', place[0]!)
  }
  const order = orderOf(columns, direction)
  // Payloads are looked up outside: for the page's rows alone.
  const query = tables(database)
    .selectFrom(
      part
        .orderBy(order)
        .limit(limit + 1)
        .as('e'),
    )
    .select(shown(database))
    .select(placeOf(columns).as('place'))
    .orderBy(order)
  const rows = await run(database, query)
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const items = rows.slice(0, limit).map(({ place, ...job }) => job)
  return { items, next: last && encodeCursor(by, last.place) }
}

/** The entries that match: of a job in work that has a next round both, else one of each job. */
export function matchingJobs(database: Database, queueId: number, filter: JobFilter) {
  return tables(database)
    .selectFrom(entriesOf(database, queueId, filter.state).as('e'))
    .where(({ and }) => and(conditionsOf(filter)))
}

const WORKING = sql<SqlBool>`p.process_id is not null`
const NEXT = sql<SqlBool>`j.next_perform_in is not null`

/** Where one state is asked for, no job has more than one entry, and the planner is to know that there are many. */
function entriesOf(database: Database, queueId: number, state: JobFilter['state']) {
  const jobs = tables(database)
    .selectFrom('jobs as j')
    .leftJoin('processes as p', 'p.process_id', 'j.claimed_by')
    .where('j.queue_id', '=', queueId)
  if (state === 'working') return jobs.where(WORKING).select(entryOf(sql`false`, sql`'working'`))
  const waits = sql<SqlBool>`case when ${WORKING} then ${NEXT} else true end`
  if (state === 'waiting') return jobs.where(waits).select(entryOf(WORKING, sql`'waiting'`))
  return jobs
    .innerJoin(sql`(values (false), (true))`.as<'n'>(sql`n(next)`), (join) =>
      join.on(sql<SqlBool>`not n.next or (${WORKING} and ${NEXT})`),
    )
    .select(entryOf(sql`n.next`, sql`case when ${WORKING} and not n.next then 'working' else 'waiting' end`))
}

/** Columns of an entry: of the job `j` itself or, where `next` says so, of its next round. */
export function entryOf(next: RawBuilder<unknown>, state: RawBuilder<unknown>) {
  return [
    'j.queue_id',
    'j.id',
    'j.shard',
    'j.lane',
    'j.fence',
    'j.claimed_at',
    sql<boolean>`${next}`.as('next'),
    sql<FoundJob['state']>`${state}::text`.as('state'),
    sql<Date>`case when ${next} then j.next_perform_in else j.perform_in end`.as('perform_in'),
    sql<number>`case when ${next} then -1 else j.retry_count end`.as('retry_count'),
    sql<number>`case when ${next} then 0 else j.crashes end`.as('crashes'),
    sql<string | null>`case when ${next} then null else j.error end`.as('error'),
  ] as const
}

/** On an entry `e`, but for its state. */
export function conditionsOf(filter: JobFilter): RawBuilder<SqlBool>[] {
  return [
    ...isOneOf('e.id', filter.ids, 'text'),
    ...inRange('e.id', filter.id),
    ...inTime('e.perform_in', filter.performIn),
    ...inRange('e.retry_count', filter.retryCount),
  ]
}

function shown({ schema }: Database) {
  const working = sql`e.state = 'working'`
  const payloads = sql`case when e.next then ${sql.id(schema, 'payloads_from')}(e.queue_id, e.id, e.fence)
    else ${sql.id(schema, 'payloads_of')}(e.queue_id, e.id, case when ${working} then e.fence end) end`
  return [
    'e.id',
    'e.shard',
    'e.lane',
    'e.perform_in as performIn',
    'e.retry_count as retryCount',
    'e.crashes',
    'e.error',
    'e.state',
    sql<Date | null>`case when ${working} then e.claimed_at end`.as('claimedAt'),
    sql<FoundJob['payloads']>`coalesce(${payloads}, '[]')`.as('payloads'),
  ] as const
}
