import { appendFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import type { Case } from './case.ts'
import { cases } from './cases.ts'
import { BARE, type Entrant, LOCKSTEP } from './entrants.ts'
import { chartOf } from './report/chart.ts'
import { fairnessTable } from './report/fairness.ts'
import { goalTable } from './report/goals.ts'
import { markdownOf } from './report/markdown.ts'
import { readRuns, Summary } from './report/summary.ts'
import { format, tableOf } from './report/table.ts'
import { type Run, type Runner, runOne } from './run.ts'
import { prepareRuntime, versionOf, versionsOf } from './runtime.ts'

const USAGE = `npm run bench -- [case …] [options]

  --against <peers>  of graphile-worker, pg-boss, bullmq; default: all of them, "none": none
  --repeats <n>      default: 3, or 1 where it is to be quick
  --quick            a glance, in five minutes
  --json             a line of JSON a run, and no table
  --out <file>       appends these lines to a file
  --from <file>      prints what such a file says, and measures nothing
  --chart <file>     draws it as an SVG
  --markdown         prints the tables of docs/performance.md instead

Needs nothing, or DATABASE_URL: a superuser's, for a server on which databases are created and dropped. BullMQ runs on
Redis too where there is a redis-server.

A case may be named by how it begins: \`fairness\` is all those of tenants.
Cases: ${cases.map(({ name }) => name).join(' ')}
`

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    against: { type: 'string', default: 'graphile-worker,pg-boss,bullmq' },
    repeats: { type: 'string' },
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
    from: { type: 'string' },
    chart: { type: 'string' },
    markdown: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

async function main(): Promise<void> {
  if (flags.help) return console.log(USAGE)
  const summary = new Summary(flags.from ? await readRuns(flags.from) : await measured())
  if (flags.chart) await writeFile(flags.chart, chartOf(summary))
  if (flags.markdown) console.log(markdownOf(summary))
  else if (!flags.json)
    console.log([tableOf(summary), fairnessTable(summary), goalTable(summary)].filter(Boolean).join('\n\n'))
}

async function measured(): Promise<Run[]> {
  const chosen = chooseCases()
  const node = await prepareRuntime()
  const server = process.env.DATABASE_URL ? undefined : await startEmbeddedPostgres()
  const connectionString = process.env.DATABASE_URL ?? server!.connectionString
  const runner = { node, quick: flags.quick, connectionString }
  try {
    console.error(await headOf(runner))
    return await runAll(runner, chosen)
  } finally {
    await server?.stop()
  }
}

function chooseCases(): Case[] {
  const names = (asked: string, name: string) => name === asked || name.startsWith(`${asked}-`)
  const unknown = positionals.filter((asked) => !cases.some(({ name }) => names(asked, name)))
  if (unknown.length > 0) throw new Error(`no such case: ${unknown.join(', ')}\n\n${USAGE}`)
  if (positionals.length > 0)
    return cases.filter(({ name }) => positionals.some((asked) => names(asked, name)))
  return cases.filter(({ inQuick = true }) => inQuick || !flags.quick)
}

/** Contenders take turns, so that other load on the machine affects all of them. */
async function runAll(runner: Runner, chosen: readonly Case[]): Promise<Run[]> {
  const runs: Run[] = []
  for (const benchCase of chosen) {
    const entrants = benchCase.entrants.filter((entrant) => takesPart(entrant, benchCase))
    const asked = Number(flags.repeats ?? (flags.quick ? 1 : 3))
    const { repeats: most = asked } = flags.quick ? benchCase.quick : benchCase.full
    const repeats = Math.min(most, asked)
    for (let repeat = 0; repeat < repeats; repeat += 1) {
      for (const entrant of entrants) {
        const run = await attempt(runner, benchCase, entrant)
        if (!run) continue
        runs.push(run)
        await tell(run, benchCase)
      }
    }
  }
  return runs
}

/** A failed run does not lose the figures of the others. */
async function attempt(runner: Runner, benchCase: Case, entrant: Entrant): Promise<Run | undefined> {
  const subject = `${benchCase.title}: ${entrant.name}, ${entrant.configuration}`
  try {
    const run = await runOne(runner, benchCase, entrant)
    if (!run) console.error(`${subject}: left out, no redis-server is installed`)
    return run
  } catch (error) {
    console.error(`${subject}: failed`, error)
    process.exitCode = 1
    return undefined
  }
}

function takesPart({ name, configuration }: Entrant, { quickConfiguration }: Case): boolean {
  if (flags.quick && (quickConfiguration ?? configuration) !== configuration) return false
  return name === LOCKSTEP || name === BARE || flags.against.split(',').includes(name.split(' ')[0]!)
}

async function tell(run: Run, { title, unit }: Case): Promise<void> {
  const line = JSON.stringify(run)
  if (flags.out) await appendFile(flags.out, `${line}\n`)
  if (flags.json) console.log(line)
  else console.error(`${title}: ${run.name}, ${run.configuration}: ${format(run.value)} ${unit}`)
}

async function headOf({ node, connectionString }: Runner): Promise<string> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  const { rows } = await client.query(
    `SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS commit, current_setting('shared_buffers') AS buffers`,
  )
  await client.end()
  const [{ version, fsync, commit, buffers }] = rows
  const peers = await versionsOf(['graphile-worker', 'pg-boss', 'bullmq'])
  return [
    `${cpus().length} × ${cpus()[0]!.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform}`,
    `Node ${await versionOf(node)}, Postgres ${version} (fsync ${fsync}, synchronous_commit ${commit}, shared_buffers ${buffers})`,
    peers.join(', '),
    '',
  ].join('\n')
}

await main()
