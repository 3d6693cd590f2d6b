import { type Kysely, sql } from 'kysely'

/** One row: whose definitions the database has, and for whom. `made` is a digest of what stands there. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('release')
    .addColumn('only_row', 'boolean', (column) => column.primaryKey().defaultTo(true).check(sql`only_row`))
    .addColumn('serial', 'integer', (column) => column.notNull())
    .addColumn('oldest_served', 'integer', (column) => column.notNull())
    .addColumn('hash', 'text', (column) => column.notNull())
    .addColumn('made', 'text', (column) => column.notNull())
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('migrated_at', 'timestamptz', (column) => column.notNull())
    .execute()
}
