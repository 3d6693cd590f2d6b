import { type Kysely, sql } from 'kysely'

const BOUNDS = ['pushed_from', 'pushed_before'] as const

/**
 * Which pushes a dead payload may have come from: those that found the fences from `pushed_from` on (NULL: any) and below
 * `pushed_before` drawn. The latter is the fence of the round that died, or a number that a kill has drawn; NULL for what died
 * before. No row is rewritten.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  for (const bound of BOUNDS) await db.schema.alterTable('morgue').addColumn(bound, 'bigint').execute()
  await extendGrants(db, schema)
}

/**
 * Workers of the release before go on under the roles that they have, until `lockstep roles` is run again: whoever buries a
 * payload notes this.
 */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const table = sql.lit(`"${schema.replaceAll('"', '""')}".morgue`)
  const columns = sql.raw(BOUNDS.join(', '))
  await sql`do $do$
declare
  _grantee oid;
begin
  for _grantee in
    select a.grantee from pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
    where t.attrelid = ${table}::regclass and t.attname = 'died_at' and a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format('grant select (${columns}), update (${columns}) on %s to %s', ${table}::regclass, _grantee::regrole);
  end loop;
end $do$`.execute(db)
}
