import { type Kysely, sql } from 'kysely'

/** Rounds by minute, in addition to those by day, for charts. Rows that are a day old are deleted. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('minute_counters')
    .addColumn('processed', 'bigint', (column) => column.notNull())
    .addColumn('failed', 'bigint', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('minute', 'timestamptz', (column) => column.notNull())
    .addPrimaryKeyConstraint('minute_counters_pkey', ['queue_id', 'minute'])
    .modifyEnd(sql`with (fillfactor = 50)`)
    .execute()
}
