import type { Kysely } from 'kysely'
import * as tables from './0001_tables.ts'
import * as claimOfLanes from './0002_claim_of_lanes.ts'
import * as pushOfOne from './0003_push_of_one.ts'
import * as oneStatement from './0004_one_statement.ts'
import * as nextRounds from './0005_next_rounds.ts'
import * as bytes from './0006_bytes.ts'
import * as release from './0007_release.ts'
import * as leases from './0008_leases.ts'

export interface SchemaMigration {
  /** `db` already points at the schema; `schema` is its bare name, for raw SQL. */
  up(db: Kysely<unknown>, schema: string): Promise<void>
}

/** Every migration under its number, in the order they run. A published one is never changed. */
export const migrations: Readonly<Record<string, SchemaMigration>> = {
  '0001_tables': tables,
  '0002_claim_of_lanes': claimOfLanes,
  '0003_push_of_one': pushOfOne,
  '0004_one_statement': oneStatement,
  '0005_next_rounds': nextRounds,
  '0006_bytes': bytes,
  '0007_release': release,
  '0008_leases': leases,
}
