import { type Kysely, sql } from 'kysely'

/**
 * When a payload expires: `jobs.expires_in` is that of the payload which the row carries. NULL: never, as usual; rows without it
 * take no more space, and nothing is rewritten.
 *
 * Two indexes find what has expired, and have no entry for anything else. `expires_in` of a job changes only where the payload
 * that its row carries goes: so claims stay HOT updates that touch no index. The id ends each index, so that a sweep can go on
 * in the middle of a hundred thousand payloads that expire at the same instant. Building them reads both tables, and pushes wait
 * meanwhile: whoever has many jobs builds them before, without a lock.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const [jobs, payloads] = [sql.id(schema, 'jobs'), sql.id(schema, 'payloads')]
  for (const table of [jobs, payloads])
    await sql`alter table ${table} add column if not exists expires_in timestamptz`.execute(db)
  await sql`create index if not exists jobs_expiring on ${jobs} (queue_id, expires_in, id) where expires_in is not null`.execute(
    db,
  )
  await sql`create index if not exists payloads_expiring on ${payloads} (queue_id, expires_in, job_id) where expires_in is not null`.execute(
    db,
  )
  for (const table of ['counters', 'minute_counters'])
    await db.schema
      .alterTable(table)
      .addColumn('expired', 'bigint', (column) => column.notNull().defaultTo(0))
      .execute()
  await extendGrants(db, schema)
}

/**
 * Workers of the release before go on under the roles that they have, until `lockstep roles` is run again: who takes the payload
 * out of a row takes its expiry, and who counts rounds counts what has expired.
 */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const table = (name: string) => sql.lit(`"${schema.replaceAll('"', '""')}".${name}`)
  await sql`do $do$
declare
  _table regclass;
  _column text;
  _grantee oid;
begin
  for _table, _column, _grantee in
    select t.attrelid, g.gained, a.grantee
    from (values
      (${table('jobs')}::regclass, 'payload', 'expires_in'),
      (${table('counters')}::regclass, 'failed', 'expired'),
      (${table('minute_counters')}::regclass, 'failed', 'expired')
    ) as g(relation, beside, gained)
    join pg_catalog.pg_attribute t on t.attrelid = g.relation and t.attname = g.beside, pg_catalog.aclexplode(t.attacl) a
    where a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format('grant update (%I) on %s to %s', _column, _table, _grantee::regrole);
  end loop;
end $do$`.execute(db)
}
