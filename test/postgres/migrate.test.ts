import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { migrations } from '../../migrations/index.ts'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { migrate, migrationSql } from '../../src/postgres/migrate.ts'
import { requireMigrated } from '../../src/postgres/release.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { exchange } from '../../src/store/exchange.ts'
import { registerProcess } from '../../src/store/process.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { complete } from '../../src/store/settle.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { poolOn } from '../support/store-environment.ts'

const ALL = Object.keys(migrations)
const NOTHING = { applied: [], defined: false, raised: [] }

let server: TestDatabase
const undo: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  server = await createDatabase()
  undo.push(() => server.drop())
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

function open(schema = 'lockstep', connectionString = server.connectionString): Database {
  const pool = poolOn(connectionString)
  undo.push(() => pool.end())
  return new Database(pool, schema)
}

function lockstepOn(connectionString: string, schema?: string): Lockstep {
  const lockstep = new Lockstep({ connectionString, schema })
  undo.push(() => lockstep.close())
  return lockstep
}

describe('a migration', () => {
  test('brings everything, and nothing the second time', async () => {
    const database = open()
    expect(await migrate(database)).toEqual({ applied: ALL, defined: true, raised: [] })
    await requireMigrated(database)
    await database.query(`SELECT lockstep.create_queue('kept', 3)`)
    expect(await migrate(database)).toEqual(NOTHING)
    expect(await database.query('SELECT name FROM lockstep.queues')).toEqual([{ name: 'kept' }])
  })

  test('is ended by no time-out of the database', async () => {
    const [{ version }] = (await open().query(
      "SELECT current_setting('server_version_num')::integer AS version",
    )) as [{ version: number }]
    const settings = ['statement_timeout', 'idle_in_transaction_session_timeout']
    if (version >= 170_000) settings.push('transaction_timeout')
    const url = new URL(server.connectionString)
    url.searchParams.set('options', settings.map((name) => `-c ${name}=50`).join(' '))
    expect(await migrate(open('lockstep', url.href))).toEqual({ applied: ALL, defined: true, raised: [] })
  })

  test('is done once when three ask at once', async () => {
    const reports = await Promise.all([1, 2, 3].map(() => migrate(open())))
    expect(reports.map(({ applied }) => applied.length).sort()).toEqual([0, 0, ALL.length])
    await requireMigrated(open())
  })

  test('brings functions up to date where the tables are', async () => {
    const database = open()
    await migrate(database)
    await database.query(`CREATE OR REPLACE FUNCTION lockstep.micros(_at timestamptz) RETURNS bigint
      LANGUAGE sql STABLE PARALLEL SAFE RETURN 0`)
    await migrate(database)
    expect(await database.query(`SELECT lockstep.micros('2000-01-01 00:00+00') AS at`)).toEqual([
      { at: 946_684_800_000_000 },
    ])
  })

  test('brings back a function that was dropped by hand', async () => {
    const database = open()
    await migrate(database)
    await database.query('DROP FUNCTION lockstep.claim')
    expect(await migrate(database)).toEqual({ ...NOTHING, defined: true })
    expect(await database.query(`SELECT 'lockstep.claim'::regproc::text AS name`)).toHaveLength(1)
    expect(await migrate(database)).toEqual(NOTHING)
  })

  test('leaves no lock behind on its connection', async () => {
    const pool = poolOn(server.connectionString, { max: 1 })
    undo.push(() => pool.end())
    await migrate(new Database(pool, 'lockstep'))
    const { rows } = await pool.query(
      `SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`,
    )
    expect(rows).toEqual([])
  })

  test('refuses a database that a later release has been to', async () => {
    const database = open()
    await migrate(database)
    await database.query(`INSERT INTO lockstep.migrations VALUES ('9999_later', 'now')`)
    const refused = {
      code: 'LOCKSTEP_SCHEMA_NEW',
      message: expect.stringMatching(/9999_later.*upgrade this one/),
    }
    await expect(migrate(database)).rejects.toMatchObject(refused)
    await expect(requireMigrated(database)).rejects.toMatchObject(refused)
  })
})

describe('a schema with something of another application in it', () => {
  test.each([
    ['its own list of migrations', 'CREATE TABLE lockstep.migrations (name text, timestamp bigint)'],
    ['a list of migrations of other columns', 'CREATE TABLE lockstep.migrations (x integer)'],
    ['one of our names in its list', `CREATE TABLE lockstep.migrations AS SELECT '0001_tables' AS name`],
    ['a table', 'CREATE TABLE lockstep.jobs (id integer)'],
    ['its own list of releases', 'CREATE TABLE lockstep.release (a integer)'],
    [
      'lists of migrations and releases',
      'CREATE TABLE lockstep.migrations (name text); CREATE TABLE lockstep.release (a integer)',
    ],
    ['a function', `CREATE FUNCTION lockstep.enqueue(a integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'`],
  ])('%s: is refused, and left as it is', async (_, made) => {
    const database = open()
    await database.query('CREATE SCHEMA lockstep')
    await database.query(made)
    await expect(migrate(database)).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_FOREIGN',
      message: expect.stringMatching(/"lockstep" can’t be migrated.*one of its own.*create it anew/),
    })
    const tables = await database.query(`SELECT FROM pg_class WHERE relnamespace = 'lockstep'::regnamespace`)
    expect(tables.length).toBe(made.split('TABLE').length - 1)
  })

  test('so is one of an unreleased build, whose functions had other parameters', async () => {
    const database = open()
    await migrate(database)
    await database.query(`
      CREATE FUNCTION lockstep.enqueue(a integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
      UPDATE lockstep.release SET serial = serial - 1`)
    await expect(migrate(database)).rejects.toMatchObject({ code: 'LOCKSTEP_SCHEMA_FOREIGN' })
    const [release] = await database.query<{ serial: number }>('SELECT serial FROM lockstep.release')
    expect(release!.serial).toBe(SERIAL - 1)
  })
})

describe('a worker’s start', () => {
  test('finds out that there is no schema, and that it is old', async () => {
    const database = open()
    await expect(requireMigrated(database)).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_MISSING',
      message: expect.stringContaining('no schema "lockstep" of pg-lockstep: run `lockstep migrate` first'),
    })
    await migrate(database)
    const known = migrations as Record<string, unknown>
    known['9998_to_come'] = async () => ({ up: async () => {} })
    undo.push(async () => delete known['9998_to_come'])
    await expect(requireMigrated(database)).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_OLD',
      message: expect.stringContaining(
        '"lockstep" lacks 9998_to_come: run `lockstep migrate` with this release',
      ),
    })
    expect(await migrate(database)).toEqual({ applied: ['9998_to_come'], defined: true, raised: [] })
    await requireMigrated(database)
  })

  test('a push without a schema says what to do', async () => {
    const push = lockstepOn(server.connectionString).enqueue(defineQueue('orders'), { id: 'a' })
    await expect(push).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_MISSING',
      message: expect.stringContaining('lockstep migrate'),
    })
  })
})

describe('the name of the schema', () => {
  test.each(['Work Place', 'select', 'étage', '100% @schema', 'a'.repeat(63)])(
    'may be any: %s',
    async (schema) => {
      const lockstep = lockstepOn(server.connectionString, schema)
      await lockstep.migrate()
      const database = open(schema)
      await requireMigrated(database)
      await database.query(`LISTEN "${schema}"`)

      const queue = defineQueue('orders', { shards: 1 })
      await lockstep.enqueue(queue, { id: 'a', payload: { b: 1 } })
      await database.query(`SELECT ${database.prefix}.enqueue('orders', 'a', '2')`)
      const queueId = await ensureQueue(database, 'orders', 1)
      const info = { host: 'here', pid: 1, version: '0', slots: 1, queues: [] }
      const processId = await registerProcess(database.pool, schema, info, 10_000)
      const key = { queueId, shard: 0, lane: 0 }
      const wish = {
        key,
        cursor: { after: null, afterId: '' },
        count: 1,
        maxPayloads: undefined,
        maxBytes: 1_000,
      }
      const { claims } = await exchange(database, processId, [], [wish])
      const { rounds } = claims[0]!
      expect(rounds).toMatchObject([{ id: 'a', payloads: [{ b: 1 }, 2] }])
      expect(await complete(database, { processId, queueId }, rounds)).toEqual([])
      expect(
        await database.query(`SELECT queue, processed, waiting FROM ${database.prefix}.queue_stats`),
      ).toEqual([{ queue: 'orders', processed: 0, waiting: 0 }])
      expect(await database.query(`SELECT nspname FROM pg_namespace WHERE nspname = 'lockstep'`)).toEqual([])
    },
  )

  test('two schemas of one database know nothing of each other', async () => {
    const [one, other] = [
      lockstepOn(server.connectionString, 'one'),
      lockstepOn(server.connectionString, 'other'),
    ]
    await Promise.all([one.migrate(), other.migrate()])
    await one.enqueue(defineQueue('orders'), { id: 'a' })
    const { pool } = open()
    expect((await pool.query('SELECT id FROM one.jobs')).rows).toEqual([{ id: 'a' }])
    expect((await pool.query('SELECT id FROM other.jobs')).rows).toEqual([])
  })
})

describe('the migration as SQL', () => {
  test.each(['lockstep', 'Work Place'])('run by hand makes what `migrate` makes: %s', async (schema) => {
    const byHand = open(schema)
    await byHand.pool.query(await migrationSql(schema))
    await requireMigrated(byHand)
    const made = await describeSchema(byHand)
    expect(await migrate(byHand)).toEqual(NOTHING)

    const other = await createDatabase()
    undo.unshift(() => other.drop())
    const migrated = open(schema, other.connectionString)
    await migrate(migrated)
    const expected = await describeSchema(migrated)
    expect(expected.length).toBeGreaterThan(100)
    expect(made).toEqual(expected)
  })
})

/** Describes the whole schema, one line each, except the library's lock table and the installation's number. */
async function describeSchema(database: Database): Promise<string[]> {
  const rows = await database.query<{ line: string }>(
    `SELECT concat_ws(' ', 'column', table_name, column_name, ordinal_position, data_type, is_nullable, column_default,
       is_identity, collation_name) AS line
     FROM information_schema.columns WHERE table_schema = $1 AND table_name <> 'migration_lock'
     UNION ALL SELECT concat_ws(' ', 'relation', relname, relkind, array_to_string(reloptions, ','))
     FROM pg_class WHERE relnamespace = $2::regnamespace AND relname !~ 'migration_lock'
     UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
     FROM pg_constraint WHERE connamespace = $2::regnamespace AND conrelid::regclass::text !~ 'migration_lock'
     UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename <> 'migration_lock'
     UNION ALL SELECT 'sequence ' || to_jsonb(s)::text FROM pg_sequences s WHERE schemaname = $1
     UNION ALL SELECT concat_ws(' ', 'view', viewname, definition) FROM pg_views WHERE schemaname = $1
     UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $2::regnamespace AND proname <> 'installation'
     UNION ALL SELECT concat_ws(' ', 'done', name) FROM ${database.prefix}.migrations
     ORDER BY line`,
    [database.schema, database.prefix],
  )
  return rows.map(({ line }) => line)
}
