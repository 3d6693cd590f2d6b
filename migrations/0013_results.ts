import { type Kysely, sql } from 'kysely'

/**
 * What rounds have returned, for those who wait for it: a row for a round that ended with success in a queue that keeps results.
 * The key finds the first one of an id after a push; the index finds what nobody may ask for any more.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('results')
    .addColumn('fence', 'bigint', (column) => column.notNull())
    .addColumn('ended_at', 'timestamptz', (column) => column.notNull())
    .addColumn('keep_until', 'timestamptz', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('job_id', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('result', 'jsonb', (column) => column.notNull())
    .addPrimaryKeyConstraint('results_pkey', ['queue_id', 'job_id', 'fence'])
    .execute()
  await sql`create index results_kept on ${sql.id(schema, 'results')} (keep_until)`.execute(db)
}
