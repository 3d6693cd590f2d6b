import { type Kysely, sql } from 'kysely'

/** Drops a function that nobody calls any more, or whose form has changed, by the types of its parameters. */
export async function dropFunction(
  db: Kysely<unknown>,
  schema: string,
  name: string,
  types: string,
): Promise<void> {
  await sql`drop function if exists ${sql.id(schema, name)} (${sql.raw(types)})`.execute(db)
}
