import { type Kysely, sql } from 'kysely'

/**
 * A primary key for each table that had none: logical replication of a whole database refuses to update or delete rows of one
 * that is published without. The keys end in a number from a sequence, so that two rows never have the same: who inserts one
 * never waits for another transaction, and fails never. Each takes the place of an index that began with the same columns: no
 * push or claim writes one more.
 *
 * `replica identity full` would cost a push nothing at all. But a subscriber of Postgres 15 or before reads the whole table for each row that
 * is deleted then, and ten thousand are at a time; and each end of a lease would log all of its ids.
 *
 * `tenant_lanes`: a row without a tenant says that those before it in its lane are gone (see `trim_tenant_lanes`). The newest of
 * a lane is the first that a look from its end meets, however many have died before it.
 *
 * A push or a claim that is under way meanwhile knows nothing of the new columns, so they have defaults. Workers may draw from
 * `fences`, and producers push with the rights of the owner.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  const [lanes, pushes, leases] = ['tenant_lanes', 'tenant_pushes', 'leases'].map((name) =>
    sql.id(schema, name),
  )
  // Numbers repeat where the sequence was restored without its rows.
  await sql`delete from ${lanes} t using ${lanes} o
where o.queue_id = t.queue_id and o.lane = t.lane and o.number = t.number and o.ctid < t.ctid`.execute(db)
  await sql`alter table ${lanes} add primary key (queue_id, lane, number)`.execute(db)
  await db.schema.dropIndex('tenant_lanes_lane').execute()

  await sql`alter table ${pushes} add column number bigint not null default nextval(${nameOf(schema, 'tenants')}),
add primary key (queue_id, tenant, pushed_at, number)`.execute(db)
  await db.schema.dropIndex('tenant_pushes_recent').execute()

  await sql`alter table ${leases} add column number bigint not null default nextval(${nameOf(schema, 'fences')}),
add primary key (queue_id, fence, number)`.execute(db)
  await db.schema.dropIndex('leases_fence').execute()
}

function nameOf(schema: string, sequence: string) {
  return sql`${sql.lit(`"${schema.replaceAll('"', '""')}".${sequence}`)}::regclass`
}
