import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import type { JobFilter, JobSort } from './jobs.ts'
import { beyond, orderOf, type SortColumn } from './page.ts'
import { inRange, inTime } from './range.ts'
import type { JobsTable } from './tables.ts'

const ID: SortColumn = { column: 'j.id', type: 'text' }
const TIME_AND_ID: readonly SortColumn[] = [{ column: 'j.perform_in', type: 'time' }, ID]
const FAILURES_AND_ID: readonly SortColumn[] = [{ column: 'j.retry_count', type: 'integer' }, ID]
/** Of a job that has never failed. */
const NEVER = '-1'

/**
 * As few jobs as an index can tell among which those lie that match, or those of a page, as a table `j` like `jobs`. Ids are in
 * the primary key.
 */
export function sourceOf(
  database: Database,
  queueId: number,
  filter: JobFilter,
  page?: Place & { readonly by: JobSort },
): RawBuilder<JobsTable> {
  const { ids, id, state, retryCount, tenant } = filter
  if (!ids && !id) {
    // A tenant may have so few jobs that all others would be read in these orders.
    if (page && state !== 'working' && tenant === undefined) {
      if (page.by === 'retryCount') return jobsByFailures(database, queueId, { ...page, filter })
      // Failures may leave out so many of a lane's first jobs that all of it would be read, in no good order.
      if (page.by === 'performIn' && !retryCount) return jobsInTime(database, queueId, { ...page, filter })
    }
    if (haveFailed(filter)) return failedJobs(database, queueId)
    if (state === 'working') return workingJobs(database, queueId)
  }
  return sql<JobsTable>`${sql.id(database.schema, 'jobs')}`
}

/** A part of a queue's jobs in the order of a column. */
interface OrderedPage<Conditions extends keyof JobFilter> {
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
function jobsInTime(
  { schema }: Database,
  queueId: number,
  page: OrderedPage<'performIn'>,
): RawBuilder<JobsTable> {
  const jobs = sql.id(schema, 'jobs')
  const conditions = [...inTime('j.perform_in', page.filter.performIn), ...from(TIME_AND_ID, page)]
  return sql<JobsTable>`(
    with recursive ${lanesOf(jobs, queueId)}
    select f.* from lanes l cross join lateral (
      select j.* from ${jobs} j
      where j.queue_id = ${queueId} and j.shard = l.shard and j.lane = l.lane and j.claimed_by is null ${and(conditions)}
      ${first(TIME_AND_ID, page)}
    ) f
    union all ${claimedJobs(jobs, queueId)}
  )`
}

/** The lanes of a queue, as a part of a WITH RECURSIVE: one step of the index for each. */
function lanesOf(jobs: RawBuilder<unknown>, queueId: number): RawBuilder<unknown> {
  return sql`lanes as (
      (select j.shard, j.lane from ${jobs} j where j.queue_id = ${queueId} order by j.shard, j.lane limit 1)
      union all
      select n.shard, n.lane from lanes l cross join lateral (
        select j.shard, j.lane from ${jobs} j where j.queue_id = ${queueId} and (j.shard, j.lane) > (l.shard, l.lane)
        order by j.shard, j.lane limit 1
      ) n
    )`
}

/**
 * No index says which jobs are claimed. But all of them were due, so it's enough to look at what is due, lane by lane; a
 * minute more, should the server's clock be set back. Not by now(): a look may be in a transaction that began long ago.
 */
function claimedJobs(jobs: RawBuilder<unknown>, queueId: number): RawBuilder<unknown> {
  return sql`select j.* from lanes l join ${jobs} j on j.queue_id = ${queueId} and j.shard = l.shard and j.lane = l.lane
    where j.claimed_by is not null and j.perform_in <= statement_timestamp() + interval '1 minute'`
}

/** Claimed jobs, as a table `j` like `jobs`. */
function workingJobs({ schema }: Database, queueId: number): RawBuilder<JobsTable> {
  const jobs = sql.id(schema, 'jobs')
  return sql<JobsTable>`(with recursive ${lanesOf(jobs, queueId)} ${claimedJobs(jobs, queueId)})`
}

/** Whether all that match have failed. Only a job itself has, never the next round of one in work. */
function haveFailed({ retryCount }: Pick<JobFilter, 'retryCount'>): boolean {
  return retryCount?.from !== undefined && retryCount.from >= 0
}

/** Jobs that have failed, as a table `j` like `jobs`: their index has them, however many others there are. */
function failedJobs({ schema }: Database, queueId: number): RawBuilder<JobsTable> {
  return sql<JobsTable>`(select j.* from ${sql.id(schema, 'jobs')} j where j.queue_id = ${queueId} and j.retry_count >= 0)`
}

/**
 * Jobs among which a page by failures lies, as a table `j` like `jobs`: a page of those that have failed, a page of those
 * that have not, and the claimed ones, since their next rounds have not failed either. Those are costly to find, so they are
 * left out where the page is full before.
 */
function jobsByFailures(
  { schema }: Database,
  queueId: number,
  page: OrderedPage<'performIn' | 'retryCount'>,
): RawBuilder<JobsTable> {
  const { filter, direction, place, limit } = page
  const jobs = sql.id(schema, 'jobs')
  const those = sql`select j.* from ${jobs} j where j.queue_id = ${queueId}`
  const matching = [
    ...inTime('j.perform_in', filter.performIn),
    ...inRange('j.retry_count', filter.retryCount),
  ]
  const failed = sql`
    with recursive ${lanesOf(jobs, queueId)}, failed as materialized (
      ${those} and j.retry_count >= 0 and j.claimed_by is null ${and([...matching, ...from(FAILURES_AND_ID, page)])}
      ${first(FAILURES_AND_ID, page)}
    )
    select * from failed
    union all ${those} and j.retry_count >= 0 and j.claimed_by is not null`
  const isPast = direction === 'asc' && place !== undefined && place[0] !== NEVER
  if (haveFailed(filter) || isPast) return sql<JobsTable>`(${failed})`
  const isReached =
    direction === 'asc' ? sql<SqlBool>`true` : sql<SqlBool>`(select count(*) from failed) <= ${limit}`
  const fresh = { direction, limit, place: place?.[0] === NEVER ? place.slice(1) : undefined }
  return sql<JobsTable>`(${failed}
    union all (
      ${those} and j.retry_count < 0 and j.claimed_by is null and ${isReached} ${and([...matching, ...from([ID], fresh)])}
      ${first([ID], fresh)}
    )
    union all ${claimedJobs(jobs, queueId)} and j.retry_count < 0 and ${isReached}
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
