import { type Kysely, sql } from 'kysely'

/** A claim takes from several lanes, and `hold` says where the rows lie: their old forms go. */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const old = (name: string, types: string) =>
    sql`drop function if exists ${sql.id(schema, name)} (${sql.raw(types)})`
  await old('claim', 'integer, integer, smallint, integer, integer, integer, bigint, text').execute(db)
  await old('hold', 'integer, integer, text[], bigint[], boolean').execute(db)
}
