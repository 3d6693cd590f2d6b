import { type Kysely, sql } from 'kysely'

/**
 * A lease ends when its renewals are seen to stand still, by the clock of who sees it: each is told from those before, and
 * the lease's length stands beside it. Rows that are there belong to processes of a release that doesn't tell them apart;
 * those stop when this is done, and within a minute they have.
 *
 * `timeline` has one row: which server's numbers the sequences have given out so far.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await sql`alter table ${sql.id(schema, 'processes')}
    add column renewal uuid not null default gen_random_uuid(),
    add column lease integer not null default 60000`.execute(db)
  await db.schema
    .createTable('timeline')
    .addColumn('only_row', 'boolean', (column) => column.primaryKey().defaultTo(true).check(sql`only_row`))
    .addColumn('system', 'bigint', (column) => column.notNull())
    .addColumn('timeline', 'integer', (column) => column.notNull())
    .execute()
}
