import { type Kysely, sql } from 'kysely'

/** `enqueue` pushes by itself, and `wake` is asked for by those who know that somebody waits: their old forms go. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const old = (name: string, types: string) =>
    sql`drop function if exists ${sql.id(schema, name)} (${sql.raw(types)})`
  await old('push_one', 'integer, integer, text, jsonb, double precision, timestamptz, smallint').execute(db)
  await old('wake', 'integer, text[], boolean').execute(db)
}
