import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import pg from 'pg'
import { Lockstep } from '../src/index.ts'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import { cases } from './cases.ts'
import { type Bench, type Measurement, measure } from './measure.ts'

/** `npm run bench -- [case …] [--repeats N] [--json]`: on DATABASE_URL, else an embedded server with fsync on. */
async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { repeats: { type: 'string', default: '3' }, json: { type: 'boolean', default: false } },
  })
  const chosen = cases.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
  if (chosen.length === 0)
    throw new Error(`no such case; there are ${cases.map(({ name }) => name).join(', ')}`)
  const server = process.env.DATABASE_URL ? undefined : await startEmbeddedPostgres()
  const connectionString = process.env.DATABASE_URL ?? server!.connectionString
  try {
    const rows: Measurement[] = []
    for (const benchCase of chosen) {
      for (let repeat = 0; repeat < Number(values.repeats); repeat++) {
        rows.push(await inFreshSchema(connectionString, (bench) => measure(benchCase, bench)))
        if (values.json) console.log(JSON.stringify(rows.at(-1)))
      }
    }
    if (!values.json) print(rows)
  } finally {
    await server?.stop()
  }
}

const SCHEMA = 'lockstep_bench'

async function inFreshSchema<T>(connectionString: string, work: (bench: Bench) => Promise<T>): Promise<T> {
  const pool = new pg.Pool({ connectionString, max: 40 })
  const lockstep = new Lockstep({ pool, schema: SCHEMA })
  try {
    await pool.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`)
    await lockstep.migrate()
    return await work({ lockstep, pool })
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`)
    await pool.end()
  }
}

function print(rows: readonly Measurement[]): void {
  const table = new Table({
    head: ['case', 'median', 'lowest', 'highest', 'unit', 'commits/job', 'WAL bytes/job'],
  })
  for (const name of new Set(rows.map((row) => row.name))) {
    const runs = rows.filter((row) => row.name === name).toSorted((a, b) => a.value - b.value)
    const median = runs[Math.floor(runs.length / 2)]!
    const figures = [median.value, runs[0]!.value, runs.at(-1)!.value].map((value) =>
      value.toFixed(median.digits),
    )
    table.push([name, ...figures, median.unit, median.commits.toFixed(2), median.walBytes.toFixed(0)])
  }
  console.log(table.toString())
}

await main()
