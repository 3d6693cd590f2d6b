import { createHash } from 'node:crypto'
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
  const missing = Object.entries(migrations).filter(([name]) => !applied.includes(name))
  if (missing.length === 0) return []
  // Only now: it loads Kysely, which producers and workers do without.
  const { record } = await import('./recorder.ts')
  const pending: MigrationStatements[] = []
  for (const [name, load] of missing) {
    const noted = `insert into ${migrationTable(schema)} values ('${name}', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))`
    pending.push({ name, statements: [...(await record(await load(), schema)), noted] })
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
