import { type Kysely, sql } from 'kysely'

/**
 * How long jobs of tenants have waited, and whose they are: whoever claims there tells it, and pushes read what was told in the
 * last seconds, to keep tenants out of each other's way. To find it out from the jobs, a push would pass all that others have
 * completed since some old snapshot. Rows are only added, and trimmed after a minute, so no one waits for another, and the last seconds hold
 * few entries in the index, however old a snapshot is.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('tenant_waits')
    .addColumn('told_at', 'timestamptz', (column) => column.notNull())
    .addColumn('number', 'bigint', (column) =>
      column
        .notNull()
        .defaultTo(sql`nextval(${sql.lit(`"${schema.replaceAll('"', '""')}".tenants`)}::regclass)`),
    )
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('waits', sql`integer[]`, (column) => column.notNull())
    .addColumn('tenants', sql`text[] collate "C"`, (column) => column.notNull())
    .addPrimaryKeyConstraint('tenant_waits_pkey', ['queue_id', 'told_at', 'number'])
    .execute()
}
