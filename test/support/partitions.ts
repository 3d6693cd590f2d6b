import pg from 'pg'
import type { Lockstep } from '../../src/lockstep.ts'
import { migrationSql } from '../../src/postgres/migrate.ts'

/** The tables whose rows belong to a queue, which an operator may have partitioned. */
const PARTITIONED = ['jobs', 'payloads', 'morgue']
/** Queues that have their own partition; later queues share one. */
const OWN_PARTITIONS = 12

export type TableLayout = 'plain' | 'partitioned'

/** Migrates the schema `lockstep`. If the caller or the environment asks for partitions, creates it with them before. */
export async function migrateTables(
  lockstep: Lockstep,
  connectionString: string,
  layout: TableLayout | undefined = process.env.LOCKSTEP_TEST_TABLES as TableLayout | undefined,
): Promise<void> {
  if (layout === 'partitioned') await migratePartitioned(connectionString, 'lockstep')
  await lockstep.migrate()
}

/** Creates list partitions, so that the same ctid occurs in each of them. */
async function migratePartitioned(connectionString: string, schema: string): Promise<void> {
  const text = PARTITIONED.reduce((sql, table) => partitioned(sql, schema, table), await migrationSql(schema))
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

function partitioned(sql: string, schema: string, table: string): string {
  const name = `"${schema}"."${table}"`
  const definition = new RegExp(`^create table ${name} (\\(.*?\\))(?: (with \\([^()]*\\)))?;$`, 'm')
  if (!definition.test(sql)) throw new Error(`the migrations create no table ${name}`)
  return sql.replace(definition, (_, columns: string, storage = '') => {
    const partition = (suffix: string, values: string) =>
      `create table "${schema}"."${table}_${suffix}" partition of ${name} ${values} ${storage};`
    const own = Array.from({ length: OWN_PARTITIONS }, (_, i) =>
      partition(`${i + 1}`, `for values in (${i + 1})`),
    )
    return [
      `create table ${name} ${columns} partition by list (queue_id);`,
      ...own,
      partition('rest', 'default'),
    ].join('\n')
  })
}
