import type { Kysely } from 'kysely'
import { dropFunction } from './old-function.ts'

/** A claim takes from several lanes, and `hold` says where the rows lie: their old forms go. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const claimOfOne = 'integer, integer, smallint, integer, integer, integer, bigint, text'
  await dropFunction(db, schema, 'claim', claimOfOne)
  await dropFunction(db, schema, 'hold', 'integer, integer, text[], bigint[], boolean')
}
