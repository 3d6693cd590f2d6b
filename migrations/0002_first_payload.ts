import { type Kysely, sql } from 'kysely'

/**
 * A job's row carries the payload it was created with, so that most jobs are one row. Rows of before carry none, and stay
 * as they are: with these defaults nothing is rewritten.
 *
 * `has_payloads`: rows of the job may be in `payloads`. It is true once a push or a requeue has added one, and stays so.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .alterTable('jobs')
    .addColumn('has_payloads', 'boolean', (column) => column.notNull().defaultTo(true))
    .addColumn('score', 'double precision')
    .addColumn('payload', 'jsonb')
    .addColumn('headers', 'jsonb')
    .execute()
  await extendGrants(db, schema)
}

/** Workers of the release before go on under the roles that they have, until `lockstep roles` is run again. */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const jobs = sql.lit(`"${schema.replaceAll('"', '""')}".jobs`)
  await sql`do $do$
declare
  _grantee oid;
begin
  for _grantee in
    select a.grantee from pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
    where t.attrelid = ${jobs}::regclass and t.attname = 'fence' and a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format(
      'grant update (has_payloads, score, payload, headers) on %s to %s', ${jobs}::regclass, _grantee::regrole
    );
  end loop;
end $do$`.execute(db)
}
