import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import type { JobFilter } from './jobs.ts'
import { beyond, type SortColumn } from './page.ts'
import { inTime } from './range.ts'
import type { JobsTable } from './tables.ts'

const TIME_AND_ID: readonly SortColumn[] = [
  { column: 'j.perform_in', type: 'time' },
  { column: 'j.id', type: 'text' },
]

/** A part of a queue's jobs in the order of their times. */
export interface TimePage {
  readonly filter: Pick<JobFilter, 'performIn'>
  readonly direction: 'asc' | 'desc'
  /** Time, as in a cursor, and id of the last row of the page before. */
  readonly place: readonly string[] | undefined
  readonly limit: number
}

/**
 * Jobs among which a page by time lies, as a table `j` like `jobs`. The index has an order for each lane of a shard: so this
 * takes as many of each lane as the page may show, instead of sorting all that wait; from a million jobs, that is a quarter
 * of the time. Of claimed jobs it takes all, since their next rounds have times of their own.
 */
export function jobsInTime({ schema }: Database, queueId: number, page: TimePage): RawBuilder<JobsTable> {
  const jobs = sql.id(schema, 'jobs')
  const { filter, direction, place, limit } = page
  const order = sql.raw(direction)
  const conditions = [
    ...inTime('j.perform_in', filter.performIn),
    ...(place ? [beyond(TIME_AND_ID, place.slice(0, 2), direction, true)] : []),
  ]
  // One with the very place of the page before may be its last row.
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
      order by j.perform_in ${order}, j.id ${order} limit ${limit + 1}
    ) f
    union all
    select j.* from ${jobs} j where j.queue_id = ${queueId} and j.claimed_by is not null
  )`
}

function and(conditions: readonly RawBuilder<SqlBool>[]): RawBuilder<unknown> {
  return sql.join(
    conditions.map((condition) => sql`and ${condition}`),
    sql` `,
  )
}
