import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import { doubleFrom, exactDouble } from './double.ts'
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

/** Which dead payloads of a queue: all conditions hold; without any, all payloads. */
export interface DeadFilter {
  /** Of their jobs. An empty list names none. */
  readonly ids?: readonly string[]
  /** Of their jobs, bytewise. */
  readonly id?: Range<string>
  readonly diedAt?: Range<Date>
  readonly score?: Range<number>
  /** In hexadecimal. With the id of its job a digest names one payload. */
  readonly digests?: readonly string[]
}

export interface DeadPayload {
  /** Of its job. */
  readonly id: string
  readonly payload: unknown
  readonly score: number
  readonly error: string | null
  readonly diedAt: Date
  /** In hexadecimal; names the payload among those of its job. */
  readonly digest: string
}

export type DeadSort = 'id' | 'diedAt' | 'score'

export const DEAD_KEY: readonly SortColumn[] = [
  { column: 'm.job_id', type: 'text' },
  { column: 'm.digest', type: 'digest' },
]
const SORTS: Readonly<Record<DeadSort, readonly SortColumn[]>> = {
  id: DEAD_KEY,
  diedAt: [{ column: 'm.died_at', type: 'time' }, ...DEAD_KEY],
  score: [{ column: 'm.score', type: 'number' }, ...DEAD_KEY],
}

/** @throws OptionError for a cursor that isn't one of this sort */
export async function findDead(
  database: Database,
  queueId: number,
  filter: DeadFilter,
  page: FullPage<DeadSort>,
): Promise<Found<DeadPayload>> {
  const { by, direction, after, limit } = page
  const columns = SORTS[by]
  let query = matchingDead(database, queueId, filter)
    .select(['m.job_id as id', 'm.payload', 'm.error', 'm.died_at as diedAt'])
    .select([exactDouble('m.score').as('score'), sql<string>`encode(m.digest, 'hex')`.as('digest')])
    .select(placeOf(columns).as('place'))
  if (after !== undefined) query = query.where(beyond(columns, decodeCursor(by, columns, after), direction))
  const rows = await run(database, query.orderBy(orderOf(columns, direction)).limit(limit + 1))
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const items = rows
    .slice(0, limit)
    .map(({ place, score, ...dead }) => ({ ...dead, score: doubleFrom(score) }))
  return { items, next: last && encodeCursor(by, last.place) }
}

export function matchingDead(database: Database, queueId: number, filter: DeadFilter) {
  const digests = filter.digests?.map((digest) => Buffer.from(digest, 'hex'))
  const conditions: RawBuilder<SqlBool>[] = [
    ...isOneOf('m.job_id', filter.ids, 'text'),
    ...inRange('m.job_id', filter.id),
    ...inTime('m.died_at', filter.diedAt),
    ...inRange('m.score', filter.score),
    ...isOneOf('m.digest', digests, 'bytea'),
  ]
  return tables(database)
    .selectFrom('morgue as m')
    .where('m.queue_id', '=', queueId)
    .where(({ and }) => and(conditions))
}
