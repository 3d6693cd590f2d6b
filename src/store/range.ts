import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Range } from './page.ts'

/** Conditions for a column to lie in a range: none where the range is open or left out. */
export function inRange(column: string, range: Range<string | number> | undefined): RawBuilder<SqlBool>[] {
  const conditions: RawBuilder<SqlBool>[] = []
  if (range?.from !== undefined) conditions.push(sql<SqlBool>`${sql.ref(column)} >= ${range.from}`)
  if (range?.to !== undefined) conditions.push(sql<SqlBool>`${sql.ref(column)} <= ${range.to}`)
  return conditions
}

/** A Date stands for its whole millisecond: what is shown as 12:00:00.123 lies in a range that ends there. */
export function inTime(column: string, range: Range<Date> | undefined): RawBuilder<SqlBool>[] {
  const conditions: RawBuilder<SqlBool>[] = []
  if (range?.from !== undefined) {
    conditions.push(sql<SqlBool>`${sql.ref(column)} >= ${storable(range.from)}::timestamptz`)
  }
  if (range?.to !== undefined) {
    conditions.push(
      sql<SqlBool>`${sql.ref(column)} < ${storable(range.to)}::timestamptz + interval '1 millisecond'`,
    )
  }
  return conditions
}

/** ms since 1970, in 4713 BC: a Date goes back further than Postgres. */
const FIRST_TIME = -210_866_803_200_000

function storable(date: Date): Date {
  return date.getTime() < FIRST_TIME ? new Date(FIRST_TIME) : date
}

/** None of the values is no condition that nothing meets, not one that everything does. */
export function isOneOf(
  column: string,
  values: readonly unknown[] | undefined,
  type: 'text' | 'bytea',
): RawBuilder<SqlBool>[] {
  if (values === undefined) return []
  return [sql<SqlBool>`${sql.ref(column)} = any (${values}::${sql.raw(type)}[])`]
}
