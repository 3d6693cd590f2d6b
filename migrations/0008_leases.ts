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

/**
 * Roles of the release before go on with the rights that they have, until `lockstep roles` is run again: whoever looks at jobs
 * sees their leases, and a worker may be a consumer.
 */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const table = (name: string) => sql.lit(`"${schema.replaceAll('"', '""')}".${name}`)
  await sql`do $do$
declare
  _rights text;
  _grantee oid;
begin
  for _rights, _grantee in
    select 'select', a.grantee from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
    where c.oid = ${table('jobs')}::regclass and a.privilege_type = 'SELECT' and a.grantee <> 0 and a.grantee <> c.relowner
    union all
    select 'insert, delete, update (ends_at, cuts)', a.grantee from pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
    where t.attrelid = ${table('processes')}::regclass and t.attname = 'renewal' and a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format('grant %s on %s to %s', _rights, ${table('leases')}::regclass, _grantee::regrole);
  end loop;
end $do$`.execute(db)
}
