import { type Kysely, sql } from 'kysely'

/**
 * The tenant of a job, and of a dead payload; the rules of a queue; and two tables that only grow, until whoever maintains
 * trims them. Neither has a unique key: two transactions that push for one tenant must never wait for each other.
 *
 * `tenant_pushes`: who has pushed how much, and when, in queues with rules. `tenant_lanes`: the lane that a tenant's jobs go to
 * in queues without rules. If two transactions gave it one at once, the lower number counts.
 *
 * No index finds the jobs of a tenant: one on (queue_id, tenant, id) where tenant is not null was measured. It costs each push
 * of a job with a tenant 198 bytes of WAL beside 567, and a third of its time or more in batches of a thousand. Without it, a
 * person who looks for a tenant among a million jobs waits 0.5 s, and 1.4 s to act on what is found.
 *
 * And the limits of a queue, with what claims of queues that have some note: see `createLimits`.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  for (const table of ['jobs', 'morgue'])
    await db.schema.alterTable(table).addColumn('tenant', sql`text collate "C"`).execute()
  await db.schema.alterTable('queues').addColumn('fairness', 'jsonb').execute()
  await createPushes(db, schema)
  await createLanes(db, schema)
  await createLimits(db)
  await extendGrants(db, schema)
}

async function createPushes(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('tenant_pushes')
    .addColumn('pushed_at', 'timestamptz', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('pushes', 'integer', (column) => column.notNull())
    .addColumn('tenant', sql`text collate "C"`, (column) => column.notNull())
    .execute()
  const table = sql.id(schema, 'tenant_pushes')
  await sql`create index tenant_pushes_recent on ${table} (queue_id, tenant, pushed_at)`.execute(db)
  // Who has pushed a moment ago: rows come in the order of time, so an entry for many pages is enough.
  await sql`create index tenant_pushes_newest on ${table} using brin (pushed_at) with (pages_per_range = 8, autosummarize = on)`.execute(
    db,
  )
}

async function createLanes(db: Kysely<unknown>, schema: string): Promise<void> {
  await sql`create sequence ${sql.id(schema, 'tenants')} as bigint cache 1`.execute(db)
  await db.schema
    .createTable('tenant_lanes')
    .addColumn('number', 'bigint', (column) => column.notNull())
    .addColumn('given_at', 'timestamptz', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('lane', 'smallint', (column) => column.notNull())
    .addColumn('tenant', sql`text collate "C"`, (column) => column.notNull())
    .execute()
  const table = sql.id(schema, 'tenant_lanes')
  await sql`create index tenant_lanes_tenant on ${table} (queue_id, tenant, number)`.execute(db)
  await sql`create index tenant_lanes_lane on ${table} (queue_id, lane)`.execute(db)
}

/**
 * `holds`: a claimed id; it counts as long as the row of the job is claimed as it says. `starts`: how many rounds began, by a
 * hundredth of the rate's window. `turns`: a process that waits for a place, so that none takes each place that it has just
 * given back. An empty `tenant` stands for the whole queue, except in `holds`, where it stands for nobody in particular.
 *
 * Only sessions that hold the queue's advisory lock write to them (see `lock_limits`), so none of their rows is waited for.
 */
async function createLimits(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('queues').addColumn('limits', 'jsonb').execute()
  await db.schema
    .createTable('holds')
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('process_id', 'integer', (column) => column.notNull())
    .addColumn('fence', 'bigint', (column) => column.notNull())
    .addColumn('tenant', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('job_id', sql`text collate "C"`, (column) => column.notNull())
    .execute()
  await db.schema.createIndex('holds_tenant').on('holds').columns(['queue_id', 'tenant']).execute()
  await db.schema
    .createTable('starts')
    .addColumn('at', 'timestamptz', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('rounds', 'integer', (column) => column.notNull())
    .addColumn('tenant', sql`text collate "C"`, (column) => column.notNull())
    .addPrimaryKeyConstraint('starts_pkey', ['queue_id', 'tenant', 'at'])
    .execute()
  await db.schema
    .createTable('turns')
    .addColumn('since', 'timestamptz', (column) => column.notNull())
    .addColumn('seen_at', 'timestamptz', (column) => column.notNull())
    .addColumn('perform_in', 'timestamptz', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('process_id', 'integer', (column) => column.notNull())
    .addColumn('shard', 'integer', (column) => column.notNull())
    .addColumn('lane', 'smallint', (column) => column.notNull())
    .addColumn('tenant', sql`text collate "C"`, (column) => column.notNull())
    .addPrimaryKeyConstraint('turns_pkey', ['queue_id', 'tenant', 'process_id'])
    .execute()
}

/**
 * Workers of the release before go on under the roles that they have, until `lockstep roles` is run again: whoever buries a
 * payload notes its tenant.
 */
async function extendGrants(db: Kysely<unknown>, schema: string): Promise<void> {
  const table = (name: string) => sql.lit(`"${schema.replaceAll('"', '""')}".${name}`)
  await sql`do $do$
declare
  _grantee oid;
begin
  for _grantee in
    select a.grantee from pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
    where t.attrelid = ${table('morgue')}::regclass and t.attname = 'error' and a.privilege_type = 'UPDATE' and a.grantee <> 0
  loop
    execute pg_catalog.format('grant select (tenant), update (tenant) on %s to %s', ${table('morgue')}::regclass, _grantee::regrole);
  end loop;
end $do$`.execute(db)
}
