import { type Kysely, sql } from 'kysely'

/**
 * The tables of the queue. The hot tables have no foreign keys, no triggers, and no index on a column that changes when
 * a job is claimed or completed: so claims are HOT updates that touch no index.
 */
export async function up(db: Kysely<unknown>, schema: string): Promise<void> {
  await createSequences(schema, db)
  await createQueues(db)
  await createJobs(db, schema)
  await createPayloads(db, schema)
  await createMorgue(db)
  await createProcesses(db)
  await createCounters(db)
  await createRelease(db)
  await createTimeline(db)
}

/** Both have no cache: a cached block would give an earlier number to a later claim or push. */
async function createSequences(schema: string, db: Kysely<unknown>): Promise<void> {
  await sql`create sequence ${sql.id(schema, 'fences')} as bigint cache 1`.execute(db)
  await sql`create sequence ${sql.id(schema, 'pushes')} as bigint cache 1`.execute(db)
}

async function createQueues(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('queues')
    .addColumn('queue_id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
    .addColumn('name', sql`text collate "C"`, (column) => column.notNull().unique())
    .addColumn('shards', 'integer', (column) => column.notNull())
    .addColumn('paused_at', 'timestamptz')
    .addColumn('created_at', 'timestamptz', (column) => column.notNull().defaultTo(sql`clock_timestamp()`))
    .addCheckConstraint('queues_name', sql`octet_length(name) between 1 and 255`)
    .addCheckConstraint('queues_shards', sql`shards between 1 and 16384`)
    .execute()
}

/**
 * One row per id. The widest columns come first, so that none needs padding. A third of each page stays free for the
 * new versions of claimed rows, which is what lets the updates be HOT: those of several lanes may be in work at once.
 */
async function createJobs(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('jobs')
    .addColumn('fence', 'bigint', (column) => column.notNull().defaultTo(0))
    .addColumn('perform_in', 'timestamptz', (column) => column.notNull())
    .addColumn('next_perform_in', 'timestamptz')
    .addColumn('claimed_at', 'timestamptz')
    .addColumn('claimed_by', 'integer')
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('shard', 'integer', (column) => column.notNull())
    .addColumn('retry_count', 'integer', (column) => column.notNull().defaultTo(-1))
    .addColumn('lane', 'smallint', (column) => column.notNull().defaultTo(0))
    .addColumn('crashes', 'smallint', (column) => column.notNull().defaultTo(0))
    .addColumn('id', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('error', 'text')
    .addPrimaryKeyConstraint('jobs_pkey', ['queue_id', 'id'])
    .modifyEnd(
      sql`with (fillfactor = 65, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.2)`,
    )
    .execute()
  // The id ends the index, so that a hundred thousand jobs due at the same instant need no sort at each claim.
  await sql`create index jobs_due on ${sql.id(schema, 'jobs')} (queue_id, shard, lane, perform_in, id)`.execute(
    db,
  )
}

async function createPayloads(db: Kysely<unknown>, schema: string): Promise<void> {
  await db.schema
    .createTable('payloads')
    .addColumn('fence', 'bigint', (column) => column.notNull())
    .addColumn('seq', 'bigint', (column) =>
      column.notNull().defaultTo(sql`nextval(${sql.lit(`${quoted(schema)}.pushes`)}::regclass)`),
    )
    .addColumn('score', 'double precision', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('job_id', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('digest', 'bytea', (column) => column.notNull())
    .addColumn('payload', 'jsonb', (column) => column.notNull())
    .addColumn('headers', 'jsonb')
    .addPrimaryKeyConstraint('payloads_pkey', ['queue_id', 'job_id', 'fence', 'digest'])
    .modifyEnd(sql`with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.2)`)
    .execute()
}

async function createMorgue(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('morgue')
    .addColumn('died_at', 'timestamptz', (column) => column.notNull())
    .addColumn('score', 'double precision', (column) => column.notNull())
    .addColumn('queue_id', 'integer', (column) => column.notNull())
    .addColumn('shard', 'integer', (column) => column.notNull())
    .addColumn('job_id', sql`text collate "C"`, (column) => column.notNull())
    .addColumn('digest', 'bytea', (column) => column.notNull())
    .addColumn('payload', 'jsonb', (column) => column.notNull())
    .addColumn('headers', 'jsonb')
    .addColumn('error', 'text')
    .addPrimaryKeyConstraint('morgue_pkey', ['queue_id', 'job_id', 'digest'])
    .execute()
  await db.schema
    .createIndex('morgue_died')
    .on('morgue')
    .columns(['queue_id', 'died_at', 'job_id', 'digest'])
    .execute()
}

/**
 * One row per worker process. A lease ends when an observer sees, by its own clock, that the renewals stand still for
 * the lease's length (ms), which is in the row. Each renewal differs from all before it. The lease is renewed every few
 * seconds, so the row's page keeps room for HOT updates.
 */
async function createProcesses(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('processes')
    .addColumn('process_id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
    .addColumn('host', 'text', (column) => column.notNull())
    .addColumn('pid', 'integer', (column) => column.notNull())
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('slots', 'integer', (column) => column.notNull())
    .addColumn('queues', sql`text[]`, (column) => column.notNull())
    .addColumn('started_at', 'timestamptz', (column) => column.notNull().defaultTo(sql`clock_timestamp()`))
    .addColumn('expires_at', 'timestamptz', (column) => column.notNull())
    .addColumn('quiet', 'boolean', (column) => column.notNull().defaultTo(false))
    .addColumn('renewal', 'uuid', (column) => column.notNull().defaultTo(sql`gen_random_uuid()`))
    .addColumn('lease', 'integer', (column) => column.notNull().defaultTo(60_000))
    .modifyEnd(sql`with (fillfactor = 20)`)
    .execute()
}

/**
 * Rounds by day, and by minute for charts. They are counted in the worker and added every few seconds, so that these rows
 * are far from hot. Rows of minutes that are a day old are trimmed.
 */
async function createCounters(db: Kysely<unknown>): Promise<void> {
  for (const [table, period, type] of [
    ['counters', 'day', 'date'],
    ['minute_counters', 'minute', 'timestamptz'],
  ] as const) {
    await db.schema
      .createTable(table)
      .addColumn('processed', 'bigint', (column) => column.notNull())
      .addColumn('failed', 'bigint', (column) => column.notNull())
      .addColumn('queue_id', 'integer', (column) => column.notNull())
      .addColumn(period, type, (column) => column.notNull())
      .addPrimaryKeyConstraint(`${table}_pkey`, ['queue_id', period])
      .modifyEnd(sql`with (fillfactor = 50)`)
      .execute()
  }
}

/**
 * One row: the release whose definitions the database has, and the releases that they serve. `made` is a digest of the
 * definitions in the database.
 */
async function createRelease(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('release')
    .addColumn('only_row', 'boolean', (column) => column.primaryKey().defaultTo(true).check(sql`only_row`))
    .addColumn('serial', 'integer', (column) => column.notNull())
    .addColumn('oldest_served', 'integer', (column) => column.notNull())
    .addColumn('hash', 'text', (column) => column.notNull())
    .addColumn('made', 'text', (column) => column.notNull())
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('migrated_at', 'timestamptz', (column) => column.notNull())
    .execute()
}

/** One row: the server whose numbers the sequences have given out so far. */
async function createTimeline(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('timeline')
    .addColumn('only_row', 'boolean', (column) => column.primaryKey().defaultTo(true).check(sql`only_row`))
    .addColumn('system', 'bigint', (column) => column.notNull())
    .addColumn('timeline', 'integer', (column) => column.notNull())
    .execute()
}

function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`
}
