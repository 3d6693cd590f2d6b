import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { OptionError } from '../errors.ts'
import { isStorable } from '../options.ts'
import { doubleFrom, exactDouble } from './double.ts'

/** Includes both ends; an omitted end is open. */
export interface Range<T> {
  readonly from?: T
  readonly to?: T
}

/** Selects and sorts a part of the results. Ties are broken by id, bytewise. */
export interface Page<By extends string> {
  readonly by?: By
  /** Default `asc`. */
  readonly direction?: 'asc' | 'desc'
  /** The `next` of an earlier page with the same `by`. In the other direction, the pages lead back. */
  readonly after?: string
  /** 1 to 1,000. Default 100; for jobs found by `ids`, all of them. */
  readonly limit?: number
}

/** A page of what was found. */
export interface Found<T> {
  readonly items: T[]
  /** The cursor of the next page; undefined on the last page. */
  readonly next: string | undefined
}

/** A page with its defaults filled in. */
export interface FullPage<By extends string> {
  readonly by: By
  readonly direction: 'asc' | 'desc'
  readonly after: string | undefined
  readonly limit: number
}

/** Writes a column's values into a cursor as text, and reads them back to the last bit. */
interface CursorType {
  readonly write: (column: string) => RawBuilder<string>
  readonly read: (text: string) => RawBuilder<unknown>
  readonly valid: (text: string) => boolean
}

const DAY = sql.lit(86_400_000_000)
/** Microseconds since 1970 that both Postgres and a Date can hold: 4713 BC to 275,760 AD. */
const [FIRST_MICRO, LAST_MICRO] = [-210_866_803_200_000_000n, 8_640_000_000_000_000_000n]

const TYPES = {
  text: {
    write: (column) => sql`${sql.ref(column)}::text`,
    read: (text) => sql`${text}::text`,
    valid: isStorable,
  },
  /** Of a job. */
  state: {
    write: (column) => sql`${sql.ref(column)}`,
    read: (text) => sql`${text}::text`,
    valid: (text) => text === 'waiting' || text === 'working',
  },
  // In two parts: multiplying a bigint with an interval goes through a double, which is too coarse after the year 2255.
  time: {
    write: (column) => sql`(extract(epoch from ${sql.ref(column)}) * 1000000)::bigint::text`,
    read: (text) =>
      sql`(timestamp '1970-01-01' + (${text}::bigint / ${DAY})::integer * interval '1 day'
        + (${text}::bigint % ${DAY}) * interval '1 microsecond') at time zone 'UTC'`,
    valid: (text) => /^-?\d{1,19}$/.test(text) && BigInt(text) >= FIRST_MICRO && BigInt(text) <= LAST_MICRO,
  },
  integer: {
    write: (column) => sql`${sql.ref(column)}::text`,
    read: (text) => sql`${text}::integer`,
    valid: (text) => /^-?\d+$/.test(text) && Number(text) === (Number(text) | 0),
  },
  number: {
    write: exactDouble,
    read: (text) => sql`${doubleFrom(text)}::double precision`,
    valid: (text) => /^[0-9a-f]{16}$/.test(text) && Number.isFinite(doubleFrom(text)),
  },
  /** Of a dead payload. */
  key: {
    write: (column) => sql`${sql.ref(column)}`,
    read: (text) => sql`${text}::text`,
    valid: (text) => /^[0-9a-f]{32}$/.test(text),
  },
  digest: {
    write: (column) => sql`encode(${sql.ref(column)}, 'hex')`,
    read: (text) => sql`decode(${text}, 'hex')`,
    valid: (text) => /^([0-9a-f]{2})*$/.test(text),
  },
} satisfies Record<string, CursorType>

/** A column to sort a page by. Together, the columns of a sort identify a row. */
export interface SortColumn {
  readonly column: string
  readonly type: keyof typeof TYPES
}

/** The values of a row's sort columns, as stored in a cursor. */
export function placeOf(columns: readonly SortColumn[]): RawBuilder<string[]> {
  return sql<string[]>`array[${sql.join(columns.map(({ column, type }) => TYPES[type].write(column)))}]`
}

export function orderOf(columns: readonly SortColumn[], direction: 'asc' | 'desc'): RawBuilder<unknown> {
  return sql.join(columns.map(({ column }) => sql`${sql.ref(column)} ${sql.raw(direction)}`))
}

/**
 * Matches rows after the place, or also there. Comparing whole rows lets an index on the columns start right there.
 */
export function beyond(
  columns: readonly SortColumn[],
  place: readonly string[],
  direction: 'asc' | 'desc',
  orThere = false,
): RawBuilder<SqlBool> {
  const values = columns.map(({ type }, index) => TYPES[type].read(place[index]!))
  const refs = columns.map(({ column }) => sql.ref(column))
  const than = sql.raw((direction === 'asc' ? '>' : '<') + (orThere ? '=' : ''))
  return sql<SqlBool>`(${sql.join(refs)}) ${than} (${sql.join(values)})`
}

export function encodeCursor(by: string, place: readonly string[]): string {
  return Buffer.from(JSON.stringify([by, ...place])).toString('base64url')
}

/** @throws OptionError for a cursor that is not the `next` of a page with the same sort */
export function decodeCursor(by: string, columns: readonly SortColumn[], cursor: string): string[] {
  const [sortedBy, ...place] = parse(cursor)
  const valid =
    place.length === columns.length && columns.every(({ type }, i) => TYPES[type].valid(place[i]!))
  if (sortedBy === by && valid) return place
  throw new OptionError(`after must be the \`next\` of an earlier page sorted by \`${by}\``)
}

function parse(cursor: string): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    return Array.isArray(parts) && parts.every((part) => typeof part === 'string') ? parts : []
  } catch {
    return []
  }
}
