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

/** Which jobs of a queue: all conditions hold; without any, all jobs. */
export interface JobFilter {
  /** An empty list names no job. */
  readonly ids?: readonly string[]
  /** Bytewise. */
  readonly id?: Range<string>
  readonly performIn?: Range<Date>
  /** −1: never failed, 0: failed once. */
  readonly retryCount?: Range<number>
  /** In work means by a live process; what a dead one left waits. */
  readonly state?: 'waiting' | 'working'
}

export interface FoundJob {
  readonly id: string
  readonly shard: number
  readonly lane: number
  readonly performIn: Date
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  /** How often in a row a process died with the job in work. */
  readonly crashes: number
  /** Of the last failure. */
  readonly error: string | null
  readonly state: 'waiting' | 'working'
  /** Since when it is in work; null while it waits. */
  readonly claimedAt: Date | null
  /** By score. Of a job in work those of this round; what was pushed meanwhile comes with the next. */
  readonly payloads: { payload: unknown; score: number }[]
}

export type JobSort = 'id' | 'performIn' | 'retryCount'

const ID: SortColumn = { column: 'j.id', type: 'text' }
const SORTS: Readonly<Record<JobSort, readonly SortColumn[]>> = {
  id: [ID],
  performIn: [{ column: 'j.perform_in', type: 'time' }, ID],
  retryCount: [{ column: 'j.retry_count', type: 'integer' }, ID],
}

const alive = sql<SqlBool>`p.expires_at > clock_timestamp()`

/** @throws OptionError for a cursor that isn't one of this sort */
export async function findJobs(
  database: Database,
  queueId: number,
  filter: JobFilter,
  page: FullPage<JobSort>,
): Promise<Found<FoundJob>> {
  const { by, direction, after, limit } = page
  const columns = SORTS[by]
  let part = matchingJobs(database, queueId, filter).selectAll('j')
  if (after !== undefined) part = part.where(beyond(columns, decodeCursor(by, columns, after), direction))
  const order = orderOf(columns, direction)
  // Joined again outside: without a state in the filter, processes are looked up for the page's rows alone.
  const query = tables(database)
    .selectFrom(
      part
        .orderBy(order)
        .limit(limit + 1)
        .as('j'),
    )
    .leftJoin('processes as p', (join) => join.onRef('p.process_id', '=', 'j.claimed_by').on(alive))
    .select(shown(database))
    .select(placeOf(columns).as('place'))
    .orderBy(order)
  const rows = await run(database, query)
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const items = rows.slice(0, limit).map(({ place, ...job }) => job)
  return { items, next: last && encodeCursor(by, last.place) }
}

/** The jobs that match, each with the live process that has it in work. */
export function matchingJobs(database: Database, queueId: number, filter: JobFilter) {
  const conditions: RawBuilder<SqlBool>[] = [
    ...isOneOf('j.id', filter.ids, 'text'),
    ...inRange('j.id', filter.id),
    ...inTime('j.perform_in', filter.performIn),
    ...inRange('j.retry_count', filter.retryCount),
  ]
  if (filter.state) {
    conditions.push(sql`p.process_id is ${sql.raw(filter.state === 'working' ? 'not null' : 'null')}`)
  }
  return tables(database)
    .selectFrom('jobs as j')
    .leftJoin('processes as p', (join) => join.onRef('p.process_id', '=', 'j.claimed_by').on(alive))
    .where('j.queue_id', '=', queueId)
    .where(({ and }) => and(conditions))
}

function shown({ schema }: Database) {
  const working = sql`p.process_id is not null`
  const payloads = sql`${sql.id(schema, 'payloads_of')}(j.queue_id, j.id, case when ${working} then j.fence end)`
  return [
    'j.id',
    'j.shard',
    'j.lane',
    'j.perform_in as performIn',
    'j.retry_count as retryCount',
    'j.crashes',
    'j.error',
    sql<FoundJob['state']>`case when ${working} then 'working' else 'waiting' end`.as('state'),
    sql<Date | null>`case when ${working} then j.claimed_at end`.as('claimedAt'),
    sql<FoundJob['payloads']>`coalesce(${payloads}, '[]')`.as('payloads'),
  ] as const
}
