import { type Kysely, sql } from 'kysely'

/**
 * What people did to queues and jobs. A row is written before its action begins, and gets its result when that ends. It names
 * its queue by name, since that may be deleted. Numbers come from the rows, not from a sequence: one that a restore has left
 * behind would keep people from acting.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('audit')
    .addColumn('audit_id', 'bigint', (column) => column.primaryKey())
    .addColumn('began_at', 'timestamptz', (column) => column.notNull().defaultTo(sql`clock_timestamp()`))
    .addColumn('ended_at', 'timestamptz')
    .addColumn('affected', 'bigint')
    .addColumn('actor', 'text', (column) => column.notNull())
    .addColumn('role', 'text', (column) => column.notNull().defaultTo(sql`session_user`))
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('queue', 'text')
    .addColumn('details', 'jsonb', (column) => column.notNull())
    .addColumn('error', 'text')
    .execute()
}
