import { type Compilable, Kysely, PostgresDialect, type QueryCreator } from 'kysely'
import type { PayloadHeaders } from '../job.ts'
import type { Database, Queryable } from '../postgres/database.ts'

export interface JobsTable {
  queue_id: number
  id: string
  shard: number
  lane: number
  perform_in: Date
  next_perform_in: Date | null
  retry_count: number
  fence: number
  claimed_by: number | null
  claimed_at: Date | null
  crashes: number
  error: string | null
  attempts: unknown
  tenant: string | null
}

export interface MorgueTable {
  queue_id: number
  job_id: string
  digest: Buffer
  payload: unknown
  headers: PayloadHeaders | null
  score: number
  error: string | null
  attempts: unknown
  died_at: Date
  tenant: string | null
}

export interface ProcessesTable {
  process_id: number
  expires_at: Date
}

/** Only the tables that callers can filter in many ways; fixed statements need no builder. */
export interface Tables {
  jobs: JobsTable
  morgue: MorgueTable
  processes: ProcessesTable
}

/** Builds statements on the tables of this schema, for `run`. */
export function tables({ pool, schema }: Database): QueryCreator<Tables> {
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) }).withSchema(schema)
}

/** Uses `query`, so that values are parsed and errors mapped as for every other statement. */
export function run<Row>(database: Database, statement: Compilable<Row>, on?: Queryable): Promise<Row[]> {
  const { sql, parameters } = statement.compile()
  return database.query<Row>(sql, [...parameters], on)
}

/** The number of rows of a statement that has a limit. */
export async function countUpTo(database: Database, limited: Compilable): Promise<number> {
  const { sql, parameters } = limited.compile()
  const [row] = await database.query<{ count: number }>(`SELECT count(*) FROM (${sql}) limited`, [
    ...parameters,
  ])
  return row!.count
}
