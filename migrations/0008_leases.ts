import { type Kysely, sql } from 'kysely'

/**
 * Claims of consumers, each with a lease of its own. The jobs of such a claim are claimed by process 0, which has no row and is
 * never gone.
 *
 * `leases`: what one claim took of a queue, by its fence, and when its lease ends. A job may be in several rows: the one that
 * ends last counts. Jobs that were settled meanwhile stay in `ids`, so a completion has nothing to write here unless it
 * was the only job of its row. `cuts`: for ids of which the round left payloads behind, the score and number of the last one
 * that it took.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('leases')
    .addColumn('ends_at', 'timestamptz', (column) => column.notNull())
    .addColumn('fence', 'bigint', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('max_retry_count', 'integer', (column) => column.notNull())
    .addColumn('ids', sql`text[] collate "C"`, (column) => column.notNull())
    .addColumn('cuts', 'jsonb')
    .execute()
  const leases = sql.id(schema, 'leases')
  await sql`create index leases_end on ${leases} (ends_at)`.execute(db)
  await sql`create index leases_fence on ${leases} (queue_id, fence)`.execute(db)
  await extendGrants(db, schema)
}

/** Workers of the release before go on under the roles that they have, until `lockstep roles` is run again. */
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
    execute pg_catalog.format('grant select, insert, delete, update (ends_at, cuts) on %s to %s', ${table('leases')}::regclass, _grantee::regrole);
  end loop;
end $do$`.execute(db)
}
