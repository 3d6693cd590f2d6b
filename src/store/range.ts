import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Range } from './page.ts'

/** Conditions for a column to lie in a range; none for an open end or without a range. */
export function inRange(column: string, range: Range<string | number> | undefined): RawBuilder<SqlBool>[] {
  const conditions: RawBuilder<SqlBool>[] = []
  if (range?.from !== undefined) conditions.push(sql<SqlBool>`${sql.ref(column)} >= ${range.from}`)
  if (range?.to !== undefined) conditions.push(sql<SqlBool>`${sql.ref(column)} <= ${range.to}`)
  return conditions
}

/** A Date covers its whole millisecond: a time shown as 12:00:00.123 lies in a range that ends there. */
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

/** ms since 1970, in 4713 BC: a Date can be earlier than Postgres allows. */
const FIRST_TIME = -210_866_803_200_000

function storable(date: Date): Date {
  return date.getTime() < FIRST_TIME ? new Date(FIRST_TIME) : date
}

/** Null: only rows without a tenant. */
export function isTenant(column: string, tenant: string | null | undefined): RawBuilder<SqlBool>[] {
  if (tenant === undefined) return []
  return [
    tenant === null ? sql<SqlBool>`${sql.ref(column)} is null` : sql<SqlBool>`${sql.ref(column)} = ${tenant}`,
  ]
}

/** An empty list must match nothing. */
export function isOneOf(
  column: string,
  values: readonly unknown[] | undefined,
  type: 'text' | 'bytea',
): RawBuilder<SqlBool>[] {
  if (values === undefined) return []
  return [sql<SqlBool>`${sql.ref(column)} = any (${values}::${sql.raw(type)}[])`]
}
