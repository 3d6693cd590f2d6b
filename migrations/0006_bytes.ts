import type { Kysely } from 'kysely'
import { dropFunction } from './old-function.ts'

/** A claim is told how many bytes it may bring, and says which rounds it has not brought: its old form goes. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const wished = 'integer[], integer[], smallint[], integer[], integer[], bigint[], text[]'
  await dropFunction(db, schema, 'claim', `integer, ${wished}`)
}
