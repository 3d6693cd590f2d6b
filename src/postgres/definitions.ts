import { createHash } from 'node:crypto'
import { migrations } from '../../migrations/index.ts'
import { quoteIdentifier } from './schema-name.ts'
import { listSqlFiles, readSql } from './sql-file.ts'

/** A numbered migration as statements, the last of which records it as applied. */
export interface MigrationStatements {
  readonly name: string
  readonly statements: readonly string[]
}

/** The migrations of this release except those `applied`, in order. Printing and running use the same statements. */
export async function pendingMigrations(
  schema: string,
  applied: readonly string[] = [],
): Promise<MigrationStatements[]> {
  const missing = Object.entries(migrations).filter(([name]) => !applied.includes(name))
  if (missing.length === 0) return []
  // Loaded only here: it needs Kysely, which producers and workers do not load.
  const { record } = await import('./recorder.ts')
  const pending: MigrationStatements[] = []
  for (const [name, load] of missing) {
    const noted = `insert into ${migrationTable(schema)} values ('${name}', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))`
    pending.push({ name, statements: [...(await record(await load(), schema)), noted] })
  }
  return pending
}

/** Creates the schema and the list of migrations, which the first migration needs. */
export function groundStatements(schema: string): string[] {
  return [
    // To create one takes a right that the owner of an existing schema may lack, `if not exists` or not.
    `do $$ begin
  if to_regnamespace('${quoteIdentifier(schema)}') is null then create schema ${quoteIdentifier(schema)}; end if;
end $$`,
    `create table if not exists ${migrationTable(schema)} (name varchar(255) primary key, timestamp varchar(255) not null)`,
  ]
}

export function migrationTable(schema: string): string {
  return `${quoteIdentifier(schema)}.migrations`
}

/**
 * Planner settings of functions that look rows up one by one. One plan for all calls finds each row by an index, even after
 * an ANALYZE at the wrong moment (docs/performance.md). Some files add more settings.
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
 * The functions and views of this release, in the order of their folders and names, which is the order to create them in:
 * SQL bodies are checked on creation, so they come after what they use; PL/pgSQL bodies are not checked. Views come after
 * all functions, since they are locked until the end of the transaction, and then rights.
 * @param carrying what to do about the function `carries`, as SQL
 */
export async function definitions(schema: string, carrying: string): Promise<string[]> {
  const files = await readFiles(placesOf(schema))
  return files.map(({ file, text }) => (file === CARRIES ? carrying : text))
}

const CARRIES = '1-values/carries.sql'

/** The one definition that differs where jobs do not carry their payload yet. */
export function carryingDefinition(schema: string, carries: boolean): Promise<string> {
  return readSql(CARRIES, { ...placesOf(schema), carries: String(carries) })
}

function placesOf(schema: string): Record<string, string> {
  return { schema: quoteIdentifier(schema), channel: `'${schema}'`, lookups }
}

/** Covers everything that a migration makes, for any schema name. A migration never changes, so its name is enough. */
export async function hashOfDefinitions(): Promise<string> {
  const hash = createHash('sha256').update(Object.keys(migrations).join('\n'))
  for (const { file, text } of await readFiles({ lookups })) hash.update(`\n${file}\n`).update(text)
  return hash.digest('hex')
}

/** In parallel, since every start of a worker waits for this. */
async function readFiles(
  values: Readonly<Record<string, string>>,
): Promise<{ file: string; text: string }[]> {
  const files = await listSqlFiles()
  return Promise.all(files.map(async (file) => ({ file, text: await readSql(file, values) })))
}
