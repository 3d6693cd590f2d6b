import type { Kysely } from 'kysely'
import * as tables from './0001_tables.ts'

export interface SchemaMigration {
  /** `db` already points at the schema; `schema` is its bare name, for raw SQL. */
  up(db: Kysely<unknown>, schema: string): Promise<void>
}

/** Every migration under its number, in the order they run. A published one is never changed. */
export const migrations: Readonly<Record<string, SchemaMigration>> = {
  '0001_tables': tables,
}
