import type { Kysely } from 'kysely'
import { dropFunction } from './old-function.ts'

/** `enqueue` pushes by itself, and `wake` is asked for by those who know that somebody waits: their old forms go. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const job = 'integer, integer, text, jsonb, double precision, timestamptz, smallint'
  await dropFunction(db, schema, 'push_one', job)
  await dropFunction(db, schema, 'wake', 'integer, text[], boolean')
}
