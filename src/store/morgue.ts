import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { PayloadHeaders } from '../job.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { attemptsIn, type FailedAttempt, shownAttempts } from './attempts.ts'
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
import { inRange, inTime, isOneOf, isTenant } from './range.ts'
import { countUpTo, type MorgueTable, run, tables } from './tables.ts'
import { msText } from './time.ts'

/** Selects dead payloads of a queue for which all conditions hold; without conditions, all of them. */
export interface DeadFilter {
  /** Ids of their jobs. An empty list matches none. */
  readonly ids?: readonly string[]
  /** Range of the ids of their jobs, compared bytewise. */
  readonly id?: Range<string>
  readonly diedAt?: Range<Date>
  readonly score?: Range<number>
  /** In hexadecimal. A digest identifies a payload together with the id of its job. */
  readonly digests?: readonly string[]
  /** As the API of the web page names them, together with the `ids` of their jobs. */
  readonly keys?: readonly string[]
  /** Payloads of jobs of this tenant; null: of those without one. */
  readonly tenant?: string | null
}

/** A payload of the morgue. */
export interface DeadPayload<Payload = unknown> {
  /** The id of its job. */
  readonly id: string
  readonly payload: Payload
  /** Null if it was pushed without. */
  readonly headers: PayloadHeaders | null
  readonly score: number
  /** What it died of; `killed` if it was killed before it ever failed. */
  readonly error: string | null
  /** By the server's clock. */
  readonly diedAt: Date
  /** Of its job; null if that had none. */
  readonly tenant: string | null
  /** In hexadecimal; identifies the payload among those of its job. */
  readonly digest: string
  /** Those of its job, when it died; otherwise as those of a job. Only if they were asked for. */
  readonly attempts?: readonly FailedAttempt[]
}

interface Keyed {
  /** Names a dead payload of its job. */
  readonly key: string
}

export type KeyedDead<Payload> = Omit<DeadPayload<Payload>, 'digest'> & Keyed

/**
 * A dead payload's digest tells a short payload to whoever guesses it, and its place among others tells something of it. Its
 * key tells nothing, since it has the installation's number in it, which only the database knows. A payload that was requeued
 * and died again has another one.
 */
function keyOf({ schema }: Database): RawBuilder<string> {
  const parts = sql.join(
    [
      sql`convert_to(${sql.id(schema, 'installation')}()::text, 'UTF8')`,
      sql`int4send(m.queue_id)`,
      sql`timestamptz_send(m.died_at)`,
      sql`m.digest`,
      sql`convert_to(m.job_id, 'UTF8')`,
    ],
    sql` || `,
  )
  return sql<string>`encode(substr(sha256(${parts}), 1, 16), 'hex')`
}

export type DeadSort = 'id' | 'diedAt' | 'score'

const ID: SortColumn = { column: 'm.job_id', type: 'text' }
const DEAD_KEY: readonly SortColumn[] = [ID, { column: 'm.digest', type: 'digest' }]
/** What identifies a dead payload, and nothing else. */
const BY_KEY: readonly SortColumn[] = [ID, { column: 'm.key', type: 'key' }]

function columnsOfSort(by: DeadSort, last: readonly SortColumn[]): readonly SortColumn[] {
  if (by === 'id') return last
  return by === 'diedAt'
    ? [{ column: 'm.died_at', type: 'time' }, ...last]
    : [{ column: 'm.score', type: 'number' }, ...last]
}

/** @throws OptionError for a cursor of another sort */
export async function findDead(
  database: Database,
  queueId: number,
  filter: DeadFilter,
  page: FullPage<DeadSort>,
  withAttempts = false,
): Promise<Found<DeadPayload>> {
  const wanted = { last: DEAD_KEY, key: sql<string>`''`, withAttempts }
  const { items, next } = await pageOfDead(database, queueId, filter, page, (payload) => payload, wanted)
  return { items: items.map(({ key: _, ...dead }) => dead), next }
}

/** `show` makes of the payload what is found of it. Keys stand for digests, and give the order where these would. */
export async function findDeadByKeys<Shown>(
  database: Database,
  queueId: number,
  filter: DeadFilter,
  page: FullPage<DeadSort>,
  show: (payload: RawBuilder<unknown>) => RawBuilder<Shown>,
  withAttempts = false,
): Promise<Found<KeyedDead<Shown>>> {
  const wanted = { last: BY_KEY, key: keyOf(database), withAttempts }
  const { items, next } = await pageOfDead(database, queueId, filter, page, show, wanted)
  return { items: items.map(({ digest: _, ...dead }) => dead), next }
}

async function pageOfDead<Shown>(
  database: Database,
  queueId: number,
  filter: DeadFilter,
  { by, direction, after, limit }: FullPage<DeadSort>,
  show: (payload: RawBuilder<unknown>) => RawBuilder<Shown>,
  { last: ties, key, withAttempts }: Wanted,
): Promise<Found<DeadPayload<Shown> & Keyed>> {
  const columns = columnsOfSort(by, ties)
  const keyed = sql<
    MorgueTable & Keyed
  >`(select m.*, ${key} as key from ${sql.id(database.schema, 'morgue')} m)`
  let query = tables(database)
    .selectFrom(keyed.as<'m'>(sql`m`))
    .where('m.queue_id', '=', queueId)
    .where(({ and }) => and(conditionsOf(database, filter)))
    .select([
      'm.job_id as id',
      'm.key',
      show(sql.ref('m.payload')).as('payload'),
      'm.headers',
      'm.error',
      'm.tenant',
    ])
    .select(sql.raw<number>(msText('m.died_at')).as('diedAt'))
    .select([exactDouble('m.score').as('score'), sql<string>`encode(m.digest, 'hex')`.as('digest')])
    .select(placeOf(columns).as('place'))
    .select(shownAttempts(database.schema, 'm', withAttempts).as('attempts'))
  if (after !== undefined) query = query.where(beyond(columns, decodeCursor(by, columns, after), direction))
  const rows = await run(database, query.orderBy(orderOf(columns, direction)).limit(limit + 1))
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const items = rows.slice(0, limit).map(({ place, score, diedAt, payload, attempts, ...dead }) => ({
    ...dead,
    ...attemptsIn(attempts),
    payload: payload as Shown,
    score: doubleFrom(score),
    diedAt: new Date(diedAt),
  }))
  return { items, next: last && encodeCursor(by, last.place) }
}

interface Wanted {
  /** The columns that end a sort: they identify a payload. */
  readonly last: readonly SortColumn[]
  readonly key: RawBuilder<string>
  readonly withAttempts: boolean
}

/** The number of matching payloads, and the last id of their jobs, at which a walk ends. */
export async function countDead(
  database: Database,
  queueId: number,
  filter: DeadFilter,
): Promise<{ total: number; last: string | null }> {
  const query = matchingDead(database, queueId, filter).select(({ fn }) => [
    fn.countAll<number>().as('total'),
    fn.max<string | null>('m.job_id').as('last'),
  ])
  const [row] = await run(database, query)
  return row!
}

/** The number of payloads that match, but no more than `most`. */
export function countDeadUpTo(
  database: Database,
  queueId: number,
  filter: DeadFilter,
  most: number,
): Promise<number> {
  return countUpTo(database, matchingDead(database, queueId, filter).select('m.job_id').limit(most))
}

/** The number of ids with dead payloads, by the name of the queue; queues without any are missing. */
export async function countDeadIds(database: Database): Promise<Map<string, number>> {
  const rows = await database.query<{ queue: string; ids: number }>(
    `SELECT q.name AS queue, count(*) AS ids
     FROM (SELECT DISTINCT m.queue_id, m.job_id FROM ${database.prefix}.morgue m) d
     JOIN ${database.prefix}.queues q USING (queue_id) GROUP BY q.name`,
  )
  return new Map(rows.map(({ queue, ids }) => [queue, ids]))
}

/** Identifies a dead payload of a queue. */
export interface DeadKey {
  readonly id: string
  readonly digest: Buffer
}

/** A range of the morgue of a queue, by id and digest. */
export interface DeadSpan {
  /** Undefined: from the first. */
  readonly after: DeadKey | undefined
  readonly lastId: string
  readonly limit: number
}

/** Lists the next matching payloads. */
export function listDead(
  database: Database,
  queueId: number,
  filter: DeadFilter,
  { after, lastId, limit }: DeadSpan,
): Promise<DeadKey[]> {
  let query = matchingDead(database, queueId, filter)
    .where('m.job_id', '<=', lastId)
    .select(['m.job_id as id', 'm.digest'])
    .orderBy(orderOf(DEAD_KEY, 'asc'))
    .limit(limit)
  if (after) query = query.where(beyond(DEAD_KEY, [after.id, after.digest.toString('hex')], 'asc'))
  return run(database, query)
}

/** Locks payloads in the order of a list, and resolves to those that still match. */
export function lockDead(
  database: Database,
  tx: Queryable,
  queueId: number,
  filter: DeadFilter,
  keys: readonly DeadKey[],
): Promise<DeadKey[]> {
  const [ids, digests] = columnsOf(keys)
  const query = matchingDead(database, queueId, filter)
    // Said first of the ids alone, so that they are looked up.
    .where(({ and }) => and(isOneOf('m.job_id', ids, 'text')))
    .where(sql<SqlBool>`(m.job_id, m.digest) in (select * from unnest(${ids}::text[], ${digests}::bytea[]))`)
    .select(['m.job_id as id', 'm.digest'])
    .orderBy(orderOf(DEAD_KEY, 'asc'))
  return run(database, query.forUpdate('m'), tx)
}

/** Moves payloads back to their jobs (R5), and returns how many, since some may be gone by now. */
export async function requeueDead(
  database: Database,
  tx: Queryable,
  queueId: number,
  keys: readonly DeadKey[],
): Promise<number> {
  const [row] = await database.call<{ requeue: number }>('requeue', [queueId, ...columnsOf(keys)], tx)
  return row!.requeue
}

/** Deletes payloads that the caller has locked. */
export async function deleteDead(
  database: Database,
  tx: Queryable,
  queueId: number,
  keys: readonly DeadKey[],
): Promise<void> {
  await database.query(
    `DELETE FROM ${database.prefix}.morgue m
     USING (SELECT $1::integer AS queue_id, t.* FROM unnest($2::text[], $3::bytea[]) AS t(id, digest) OFFSET 0) d
     WHERE m.queue_id = d.queue_id AND m.job_id = d.id AND m.digest = d.digest`,
    [queueId, ...columnsOf(keys)],
    tx,
  )
}

function columnsOf(keys: readonly DeadKey[]): [string[], Buffer[]] {
  return [keys.map(({ id }) => id), keys.map(({ digest }) => digest)]
}

function matchingDead(database: Database, queueId: number, filter: DeadFilter) {
  return tables(database)
    .selectFrom('morgue as m')
    .where('m.queue_id', '=', queueId)
    .where(({ and }) => and(conditionsOf(database, filter)))
}

function conditionsOf(database: Database, filter: DeadFilter): RawBuilder<SqlBool>[] {
  const digests = filter.digests?.map((digest) => Buffer.from(digest, 'hex'))
  return [
    ...isOneOf('m.job_id', filter.ids, 'text'),
    ...inRange('m.job_id', filter.id),
    ...inTime('m.died_at', filter.diedAt),
    ...inRange('m.score', filter.score),
    ...isOneOf('m.digest', digests, 'bytea'),
    ...isTenant('m.tenant', filter.tenant),
    ...(filter.keys ? [sql<SqlBool>`${keyOf(database)} = any (${filter.keys}::text[])`] : []),
  ]
}
