import { type Kysely, sql } from 'kysely'
import { dropFunction } from './old-function.ts'

/**
 * What a person does to waiting jobs is told which entry of an id is meant: the old forms go. The new ones may be called
 * as the old ones were, so an older release that runs meanwhile notices nothing.
 *
 * Payloads have no shard of their own any more; a job's row has it, and moving to another shard changes that row alone.
 * Dropping the column changes the catalog and rewrites nothing, and only functions name it, which change in the same
 * transaction. A call that is under way just then, in its old form, and has not come to its payloads yet, fails once
 * (column "shard" does not exist): it is rolled back as a whole, and a worker of an older release tries again.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  for (const name of ['delete_jobs', 'kill', 'perform_now', 'hold_waiting'])
    await dropFunction(db, schema, name, 'integer, text[]')
  await sql`alter table ${sql.id(schema, 'payloads')} drop column shard`.execute(db)
}
