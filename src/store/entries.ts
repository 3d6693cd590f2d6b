import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import type { FoundJob, JobFilter } from './jobs.ts'
import { sourceOf } from './jobs-in-order.ts'
import { inRange, inTime, isOneOf, isTenant } from './range.ts'
import { type JobsTable, tables } from './tables.ts'

/** The entries that match and wait. */
export function matchingWaiting(database: Database, queueId: number, filter: JobFilter) {
  const { state = 'waiting', ...rest } = filter
  const query = matchingJobs(database, queueId, { ...rest, state: 'waiting' })
  return state === 'waiting' ? query : query.where(sql<SqlBool>`false`)
}

/** The matching entries. A job in work with a next round has two, any other job one. */
export function matchingJobs(
  database: Database,
  queueId: number,
  filter: JobFilter,
  source = sourceOf(database, queueId, filter),
) {
  return tables(database)
    .selectFrom(entriesOf(database, queueId, filter.state, source).as('e'))
    .where(({ and }) => and(conditionsOf(filter)))
}

/** Also of a consumer, whose claims have process 0. */
const WORKING = sql<SqlBool>`(p.process_id is not null or j.claimed_by = 0)`
const NEXT = sql<SqlBool>`j.next_perform_in is not null`

/** With one state, a job has at most one entry. Avoiding the join then lets the planner know that there are many rows. */
function entriesOf(
  database: Database,
  queueId: number,
  state: JobFilter['state'],
  source: RawBuilder<JobsTable>,
) {
  const jobs = tables(database)
    .selectFrom(source.as<'j'>(sql`j`))
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

/** Columns of an entry: those of the job `j` itself or, if `next` is true, of its next round. */
export function entryOf(next: RawBuilder<unknown>, state: RawBuilder<unknown>) {
  return [
    'j.queue_id',
    'j.id',
    'j.shard',
    'j.lane',
    'j.tenant',
    'j.fence',
    'j.claimed_at',
    'j.claimed_by',
    sql<boolean>`${next}`.as('next'),
    sql<FoundJob['state']>`${state}::text`.as('state'),
    sql<Date>`case when ${next} then j.next_perform_in else j.perform_in end`.as('perform_in'),
    sql<number>`case when ${next} then -1 else j.retry_count end`.as('retry_count'),
    sql<number>`case when ${next} then 0 else j.crashes end`.as('crashes'),
    sql<string | null>`case when ${next} then null else j.error end`.as('error'),
    sql`case when ${next} then null else j.attempts end`.as('attempts'),
  ] as const
}

/** The conditions on an entry `e`, except the one on its state. */
export function conditionsOf(filter: JobFilter): RawBuilder<SqlBool>[] {
  return [
    ...isOneOf('e.id', filter.ids, 'text'),
    ...inRange('e.id', filter.id),
    ...inTime('e.perform_in', filter.performIn),
    ...inRange('e.retry_count', filter.retryCount),
    ...isTenant('e.tenant', filter.tenant),
  ]
}
