import { type Kysely, sql } from 'kysely'

/**
 * What claims of queues with limits note is read from its newest end, so that a claim never reads what has died since some
 * session took a snapshot: dead rows and their index entries stay as long as that is held.
 *
 * `holds`: `number` ascends in a queue, in the order in which they were noted; those that count have one from `checkpoint` on, as
 * the newest says (see `count_holds`). `starts`: `total` is how many rounds have begun so far, ever, up to the end of that
 * hundredth of the window; of these, those up to `gone` are known to have left the window. `clock` ascends each time the
 * server's clock has been set back (see `started`). `turns`: a row for each time a process was seen to wait.
 *
 * What they say at this moment stays true, so no limit is exceeded. A claim under way keeps the first of these tables locked until it
 * is committed. The tables stay the same, and so does the number that the advisory lock is named after.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await numberHolds(db, schema)
  await sql`alter table ${sql.id(schema, 'turns')} drop constraint turns_pkey, add primary key (queue_id, tenant, seen_at, process_id)`.execute(
    db,
  )
  await emptyView(db, schema)
  await sumStarts(db, schema)
}

async function numberHolds(db: Kysely<unknown>, schema: string): Promise<void> {
  const holds = sql.id(schema, 'holds')
  await sql`alter table ${holds} add column number bigint, add column checkpoint bigint`.execute(db)
  await sql`update ${holds} h set number = n.number, checkpoint = 1
from (select queue_id, ctid as tid, row_number() over (partition by queue_id) as number from ${holds}) n
where h.queue_id = n.queue_id and h.ctid = n.tid`.execute(db)
  await sql`drop index ${sql.id(schema, 'holds_tenant')}`.execute(db)
  await sql`alter table ${holds} alter column checkpoint set not null, add primary key (queue_id, number)`.execute(
    db,
  )
}

/** The view of the release before names a column that goes. It is defined anew after this, and keeps its grants. */
async function emptyView(db: Kysely<unknown>, schema: string): Promise<void> {
  const view = sql.lit(`"${schema.replaceAll('"', '""')}".limited`)
  await sql`do $do$ begin
  if to_regclass(${view}) is not null then
    execute (
      select pg_catalog.format('create or replace view %s as select %s', a.attrelid::regclass, pg_catalog.string_agg(
        pg_catalog.format('null::%s%s as %I', pg_catalog.format_type(a.atttypid, null), ' collate ' || nullif(a.attcollation, 0)::regcollation, a.attname),
        ', ' order by a.attnum
      ))
      from pg_catalog.pg_attribute a where a.attrelid = ${view}::regclass and a.attnum > 0 group by a.attrelid
    );
  end if;
end $do$`.execute(db)
}

async function sumStarts(db: Kysely<unknown>, schema: string): Promise<void> {
  const starts = sql.id(schema, 'starts')
  await sql`alter table ${starts} drop constraint starts_pkey, add column total bigint, add column gone bigint not null default 0,
add column clock integer not null default 0`.execute(db)
  await sql`update ${starts} s set total = n.total
from (
  select queue_id, ctid as tid, sum(rounds) over (partition by queue_id, tenant order by at) as total from ${starts}
) n
where s.queue_id = n.queue_id and s.ctid = n.tid`.execute(db)
  await sql`alter table ${starts} drop column rounds, alter column gone drop default, alter column clock drop default,
add primary key (queue_id, tenant, clock, at, total)`.execute(db)
}
