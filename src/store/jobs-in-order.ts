import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import type { JobFilter } from './jobs.ts'
import { beyond, orderOf, type SortColumn } from './page.ts'
import { inRange, inTime } from './range.ts'
import type { JobsTable } from './tables.ts'

const ID: SortColumn = { column: 'j.id', type: 'text' }
const TIME_AND_ID: readonly SortColumn[] = [{ column: 'j.perform_in', type: 'time' }, ID]
const FAILURES_AND_ID: readonly SortColumn[] = [{ column: 'j.retry_count', type: 'integer' }, ID]

/** A part of a queue's jobs in the order of a column. */
export interface OrderedPage<Conditions extends keyof JobFilter> {
  readonly filter: Pick<JobFilter, Conditions>
  readonly direction: 'asc' | 'desc'
  /** The column, as in a cursor, and the id of the last row of the page before. */
  readonly place: readonly string[] | undefined
  readonly limit: number
}

/**
 * Jobs among which a page by time lies, as a table `j` like `jobs`. The index has an order for each lane of a shard: so this
 * takes as many of each lane as the page may show, instead of sorting all that wait; from a million jobs, that is a quarter
 * of the time. Of claimed jobs it takes all, since their next rounds have times of their own.
 */
export function jobsInTime(
  { schema }: Database,
  queueId: number,
  page: OrderedPage<'performIn'>,
): RawBuilder<JobsTable> {
  const jobs = sql.id(schema, 'jobs')
  const conditions = [...inTime('j.perform_in', page.filter.performIn), ...from(TIME_AND_ID, page)]
  return sql<JobsTable>`(
    with recursive lanes as (
      (select j.shard, j.lane from ${jobs} j where j.queue_id = ${queueId} order by j.shard, j.lane limit 1)
      union all
      select n.shard, n.lane from lanes l cross join lateral (
        select j.shard, j.lane from ${jobs} j where j.queue_id = ${queueId} and (j.shard, j.lane) > (l.shard, l.lane)
        order by j.shard, j.lane limit 1
      ) n
    )
    select f.* from lanes l cross join lateral (
      select j.* from ${jobs} j
      where j.queue_id = ${queueId} and j.shard = l.shard and j.lane = l.lane and j.claimed_by is null ${and(conditions)}
      ${first(TIME_AND_ID, page)}
    ) f
    union all
    select j.* from ${jobs} j where j.queue_id = ${queueId} and j.claimed_by is not null
  )`
}

/**
 * Jobs among which a page by failures lies. No index has that order. But whole rows can be compared, and all but a page of
 * them dropped, before it's found out of each what is shown of it; from a million jobs, that is half of the time.
 */
export function jobsByFailures(
  { schema }: Database,
  queueId: number,
  page: OrderedPage<'performIn' | 'retryCount'>,
): RawBuilder<JobsTable> {
  const jobs = sql.id(schema, 'jobs')
  const { performIn, retryCount } = page.filter
  const conditions = [
    ...inTime('j.perform_in', performIn),
    ...inRange('j.retry_count', retryCount),
    ...from(FAILURES_AND_ID, page),
  ]
  return sql<JobsTable>`(
    (
      select j.* from ${jobs} j where j.queue_id = ${queueId} and j.claimed_by is null ${and(conditions)}
      ${first(FAILURES_AND_ID, page)}
    )
    union all
    select j.* from ${jobs} j where j.queue_id = ${queueId} and j.claimed_by is not null
  )`
}

type Place = Pick<OrderedPage<never>, 'direction' | 'place' | 'limit'>

function from(columns: readonly SortColumn[], { place, direction }: Place): RawBuilder<SqlBool>[] {
  return place ? [beyond(columns, place.slice(0, columns.length), direction, true)] : []
}

/** One with the very place of the page before may be its last row. */
function first(columns: readonly SortColumn[], { direction, limit }: Place): RawBuilder<unknown> {
  return sql`order by ${orderOf(columns, direction)} limit ${limit + 1}`
}

function and(conditions: readonly RawBuilder<SqlBool>[]): RawBuilder<unknown> {
  return sql.join(
    conditions.map((condition) => sql`and ${condition}`),
    sql` `,
  )
}
