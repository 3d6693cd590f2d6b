import { type Kysely, sql } from 'kysely'

/**
 * The last failed attempts of a job, and of the job of a dead payload when that died. NULL until something fails, so that
 * other rows take no more space, and nothing is rewritten.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  for (const table of ['jobs', 'morgue'])
    await db.schema.alterTable(table).addColumn('attempts', 'jsonb').execute()
  await extendGrants(db, schema)
}

/**
 * Workers of the release before go on under the roles that they have, until `lockstep roles` is run again. Whoever may count
 * a crash notes it, and whoever may change the error of a dead payload changes its attempts.
 */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const table = (name: string) => sql.lit(`"${schema.replaceAll('"', '""')}".${name}`)
  await sql`do $do$
declare
  _table regclass;
  _rights text;
  _grantee oid;
begin
  for _table, _rights, _grantee in
    select t.attrelid, g.rights, a.grantee
    from (values
      (${table('jobs')}::regclass, 'crashes', 'update (attempts)'),
      (${table('morgue')}::regclass, 'error', 'select (attempts), update (attempts)')
    ) as g(relation, beside, rights)
    join pg_catalog.pg_attribute t on t.attrelid = g.relation and t.attname = g.beside, pg_catalog.aclexplode(t.attacl) a
    where a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format('grant %s on %s to %s', _rights, _table, _grantee::regrole);
  end loop;
end $do$`.execute(db)
}
