import { createHash } from 'node:crypto'
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { migrations } from '../../migrations/index.ts'
import { quoteIdentifier } from './schema-name.ts'
import { listSqlFiles, readSql } from './sql-file.ts'

/** A numbered migration as statements, the last of which notes it down. */
export interface MigrationStatements {
  readonly name: string
  readonly statements: readonly string[]
}

/** The migrations of this release but those that are `applied`, in their order. They are printed as they are run. */
export async function pendingMigrations(
  schema: string,
  applied: readonly string[] = [],
): Promise<MigrationStatements[]> {
  const pending: MigrationStatements[] = []
  for (const [name, migration] of Object.entries(migrations)) {
    if (applied.includes(name)) continue
    const statements: string[] = []
    await migration.up(recorder(statements).withSchema(schema), schema)
    const noted = `insert into ${migrationTable(schema)} values ('${name}', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))`
    pending.push({ name, statements: [...statements, noted] })
  }
  return pending
}

/** The schema and the list of migrations, which the first one needs. */
export function groundStatements(schema: string): string[] {
  return [
    `create schema if not exists ${quoteIdentifier(schema)}`,
    `create table if not exists ${migrationTable(schema)} (name varchar(255) primary key, timestamp varchar(255) not null)`,
  ]
}

export function migrationTable(schema: string): string {
  return `${quoteIdentifier(schema)}.migrations`
}

/** Statements go into the list, and nowhere else. */
function recorder(statements: string[]): Kysely<unknown> {
  return new Kysely({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (inner) => new PostgresIntrospector(inner),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => {
      if (query.parameters.length > 0) throw new Error(`a migration can have no parameters: ${query.sql}`)
      statements.push(query.sql)
    },
  })
}

/**
 * What a function that looks rows up one by one sets for its planner: each is found by an index, whatever an ANALYZE at the
 * wrong moment has told of the tables (docs/performance.md), by one plan for all calls. Some files add more to it.
 */
const LOOKUPS = [
  'plan_cache_mode = force_generic_plan',
  'jit = off',
  'enable_seqscan = off',
  'enable_bitmapscan = off',
  'enable_hashjoin = off',
  'enable_mergejoin = off',
]
const lookups = LOOKUPS.map((setting) => `SET ${setting}`).join(' ')

/**
 * The functions and views of this release, in the order of their folders and names. In that order they can be made: bodies
 * in SQL are checked when they are made, and so come after what they use; those in PL/pgSQL are not. Views come last: they
 * are locked until the end of the transaction.
 */
export async function definitions(schema: string): Promise<string[]> {
  const values = { schema: quoteIdentifier(schema), channel: `'${schema}'`, lookups }
  const files = await listSqlFiles()
  return Promise.all(files.map((file) => readSql(file, values)))
}

/** Of all that a migration makes, whatever the schema is called. Names of migrations are enough: they never change. */
export async function hashOfDefinitions(): Promise<string> {
  const hash = createHash('sha256').update(Object.keys(migrations).join('\n'))
  for (const file of await listSqlFiles()) hash.update(`\n${file}\n`).update(await readSql(file, { lookups }))
  return hash.digest('hex')
}
