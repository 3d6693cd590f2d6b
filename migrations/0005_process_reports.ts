import { type Kysely, sql } from 'kysely'

/**
 * What worker processes say of themselves, and what people ask of them. Processes of the release before write neither.
 *
 * Reports have a table of their own: claims and comparisons read `processes`, whose rows stay small, whatever a held snapshot
 * keeps of their former versions. `request` is null, `quiet` or `stop`.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .alterTable('processes')
    .addColumn('request', 'text', (column) => column.check(sql`request in ('quiet', 'stop')`))
    .execute()
  await db.schema
    .createTable('process_reports')
    .addColumn('process_id', 'integer', (column) => column.primaryKey())
    .addColumn('reported_at', 'timestamptz', (column) => column.notNull())
    .addColumn('event_loop_delay', 'double precision', (column) => column.notNull())
    .addColumn('memory', 'bigint', (column) => column.notNull())
    // Not jsonb: that would refuse characters which the encoding of the database lacks, and the renewal with them.
    .addColumn('shards', 'json', (column) => column.notNull())
    .addColumn('doing', 'json', (column) => column.notNull())
    // Its updates are HOT, so that old versions go without a vacuum.
    .modifyEnd(
      sql`with (fillfactor = 20, autovacuum_vacuum_threshold = 2000, autovacuum_analyze_threshold = 2000)`,
    )
    .execute()
  await extendGrants(db, schema)
}

/**
 * Workers of the release before remove silent processes, and their reports with them. Those of this release go on under the
 * roles that they have, until `lockstep roles` is run again.
 */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const table = (name: string) => sql.lit(`"${schema.replaceAll('"', '""')}".${name}`)
  await sql`do $do$
declare
  _grantee oid;
begin
  for _grantee in
    select a.grantee from pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
    where t.attrelid = ${table('processes')}::regclass and t.attname = 'renewal' and a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format(
      'grant select, insert, delete, update (reported_at, event_loop_delay, memory, shards, doing) on %s to %s',
      ${table('process_reports')}::regclass, _grantee::regrole
    );
  end loop;
end $do$`.execute(db)
}
