import {
  DummyDriver,
  Kysely,
  Migrator,
  PostgresAdapter,
  PostgresDialect,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import type pg from 'pg'
import { migrations } from '../../migrations/index.ts'
import { DatabaseError } from '../errors.ts'
import type { Database } from './database.ts'
import { hasCode, toLockstepError } from './failure.ts'
import { quoteIdentifier } from './schema-name.ts'
import { listSqlFiles, readSql } from './sql-file.ts'

const MIGRATION_TABLE = 'migrations'

/** What a migration run did: the numbered migrations it applied, in order; none on a database that had them. */
export interface MigrationReport {
  readonly applied: readonly string[]
}

/**
 * Brings the schema up to this release: numbered migrations, then functions and views.
 * Several processes may do so at once: one works, the others wait.
 * @throws DatabaseError `LOCKSTEP_SCHEMA_NEW` where a later release has been there
 */
export async function migrate({ pool, schema }: Database): Promise<MigrationReport> {
  const client = await pool.connect().catch((error) => {
    throw toLockstepError(error)
  })
  try {
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [`pg-lockstep migrate ${schema}`])
    try {
      return await migrateAlone(client, schema)
    } catch (error) {
      throw toLockstepError(error)
    } finally {
      await client.query('SELECT pg_advisory_unlock_all()').catch(() => {})
    }
  } finally {
    client.release()
  }
}

async function migrateAlone(client: pg.PoolClient, schema: string): Promise<MigrationReport> {
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: poolOfOne(client) }) })
  refuseNewer(await appliedMigrations(client, schema))
  const { results = [], error } = await new Migrator({
    db,
    provider: providerFor(schema),
    migrationTableSchema: schema,
    migrationTableName: MIGRATION_TABLE,
    migrationLockTableName: 'migration_lock',
  }).migrateToLatest()
  if (error) throw error
  // Functions that run with their owner's rights must not be bound to what others put on its search_path.
  await client.query('BEGIN; SET LOCAL search_path = pg_catalog, pg_temp')
  try {
    for (const text of await definitions(schema)) await client.query(text)
    await client.query('COMMIT')
  } catch (failure) {
    await client.query('ROLLBACK')
    throw failure
  }
  return { applied: results.map(({ migrationName }) => migrationName) }
}

/** Kysely's dialect wants a pool; ours is the one client that holds the migration lock. */
function poolOfOne(client: pg.PoolClient): pg.Pool {
  const lent = Object.assign(Object.create(client), { release() {}, query: client.query.bind(client) })
  return { connect: async () => lent, end: async () => {} } as unknown as pg.Pool
}

function providerFor(schema: string) {
  return {
    getMigrations: async () =>
      Object.fromEntries(
        Object.entries(migrations).map(([name, migration]) => [
          name,
          { up: (db: Kysely<unknown>) => migration.up(db.withSchema(schema), schema) },
        ]),
      ),
  }
}

/**
 * Checks that the database has what this release needs, before a worker starts.
 * @throws DatabaseError `LOCKSTEP_SCHEMA_MISSING`, `LOCKSTEP_SCHEMA_OLD` or `LOCKSTEP_SCHEMA_NEW`
 */
export async function requireMigrated({ pool, schema }: Database): Promise<void> {
  const applied = await appliedMigrations(pool, schema).catch((error) => {
    throw toLockstepError(error)
  })
  if (applied.length === 0) {
    throw new DatabaseError(
      'LOCKSTEP_SCHEMA_MISSING',
      `the database has no schema "${schema}" of pg-lockstep: run \`lockstep migrate\` first`,
    )
  }
  refuseNewer(applied)
  const missing = Object.keys(migrations).filter((name) => !applied.includes(name))
  if (missing.length > 0) {
    throw new DatabaseError(
      'LOCKSTEP_SCHEMA_OLD',
      `the schema "${schema}" lacks ${missing.join(', ')}: run \`lockstep migrate\` with this release`,
    )
  }
}

function refuseNewer(applied: readonly string[]): void {
  const unknown = applied.filter((name) => !(name in migrations))
  if (unknown.length === 0) return
  throw new DatabaseError(
    'LOCKSTEP_SCHEMA_NEW',
    `the database was migrated by a later release of pg-lockstep (${unknown.join(', ')}): upgrade this one`,
  )
}

async function appliedMigrations(on: Pick<pg.ClientBase, 'query'>, schema: string): Promise<string[]> {
  try {
    const table = `${quoteIdentifier(schema)}.${quoteIdentifier(MIGRATION_TABLE)}`
    const { rows } = await on.query(`SELECT name FROM ${table} ORDER BY name`)
    return rows.map((row) => row.name)
  } catch (error) {
    if (hasCode(error, '42P01', '3F000')) return []
    throw error
  }
}

/** The whole schema as SQL, for teams that run their own migrations. */
export async function migrationSql(schema: string): Promise<string> {
  const statements = [`create schema if not exists ${quoteIdentifier(schema)}`]
  const db = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (inner) => new PostgresIntrospector(inner),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: (event) => {
      statements.push(event.query.sql)
    },
  })
  const table = `${quoteIdentifier(schema)}.${quoteIdentifier(MIGRATION_TABLE)}`
  statements.push(
    `create table if not exists ${table} (name varchar(255) primary key, timestamp varchar(255) not null)`,
  )
  for (const [name, migration] of Object.entries(migrations)) {
    await migration.up(db.withSchema(schema), schema)
    statements.push(`insert into ${table} values ('${name}', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))`)
  }
  const tables = statements.map((statement) => `${statement};`)
  return [...tables, PIN_PATH, ...(await definitions(schema)), UNPIN_PATH].join('\n\n')
}

/** However it is run, in one transaction or not: functions and views are bound to what pg_catalog has. */
const PIN_PATH = `select set_config('lockstep.search_path', current_setting('search_path'), false);
set search_path = pg_catalog, pg_temp;`
const UNPIN_PATH = `select set_config('search_path', current_setting('lockstep.search_path'), false);`

/**
 * Functions and views, each after those it uses: SQL-language bodies and views are checked when they are made.
 * PL/pgSQL bodies are not, so their order is free.
 */
const DEFINED_FIRST = [
  'micros',
  'from_micros',
  'shard_of',
  'digest_of',
  'head_of',
  'payloads_of',
  'unsettled',
]

async function definitions(schema: string): Promise<string[]> {
  const rank = (file: string) => DEFINED_FIRST.indexOf(file.slice(0, -4)) + 1 || DEFINED_FIRST.length + 1
  const ordered = (await listSqlFiles()).toSorted((a, b) => rank(a) - rank(b))
  const values = { schema: quoteIdentifier(schema), channel: `'${schema}'` }
  return Promise.all(ordered.map((file) => readSql(file, values)))
}
