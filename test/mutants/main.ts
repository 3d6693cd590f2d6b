import { fileURLToPath } from 'node:url'
import Table from 'cli-table3'
import { Command, InvalidArgumentError } from 'commander'
import pc from 'picocolors'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { CLASSIC } from './classic.ts'
import type { Mutant } from './mutant.ts'
import { type Examination, MutantRunner } from './mutant-runner.ts'
import { MUTANTS } from './mutants.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const INTERRUPTED = 130

interface Result extends Examination {
  readonly mutant: Mutant
  readonly seconds: number
}

interface Choice {
  readonly all?: boolean
  readonly only?: string
  readonly shard?: Shard
  readonly list?: boolean
}

interface Shard {
  readonly n: number
  readonly of: number
}

async function main(): Promise<number> {
  const program = new Command('npm run mutants --')
    .description(
      'Breaks the protocol in a copy of the project, one way after the other, and runs the tests that should notice.\n' +
        'Exits with 1 if a mutant goes unnoticed, or is none: nothing works any more, or it can’t be run.',
    )
    .option('--all', 'further mutants beside the ten classic ones')
    .option('--only <name>', 'mutants with this in their name')
    .option('--shard <n/of>', 'one part of them, such as 1/2, to share the work between machines', toShard)
    .option('--list', 'show the mutants without running them')
    .parse()
  const { all, only, shard, list } = program.opts<Choice>()
  const named = only ? MUTANTS.filter(({ name }) => name.includes(only)) : all || list ? MUTANTS : CLASSIC
  if (named.length === 0) program.error(`no mutant has "${only}" in its name: see --list`, { exitCode: 2 })
  const chosen = shard ? named.filter((_, place) => place % shard.of === shard.n - 1) : named
  if (list) return print(chosen)
  const results = await run(chosen)
  return results ? report(results) : INTERRUPTED
}

function toShard(text: string): Shard {
  const [n, of] = (text.match(/^(\d+)\/(\d+)$/) ?? []).slice(1).map(Number)
  if (n && of && n <= of) return { n, of }
  throw new InvalidArgumentError('give it a number and how many there are, such as 1/2')
}

function print(mutants: readonly Mutant[]): number {
  for (const { name, promise, breaks } of mutants) console.log(`${pc.bold(name)} (${promise})\n  ${breaks}`)
  return 0
}

/** Undefined if it was interrupted; tests, copy and server are gone then too. */
async function run(mutants: readonly Mutant[]): Promise<Result[] | undefined> {
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => interrupted.abort())
  const { signal } = interrupted
  const server = await startEmbeddedPostgres({ settings: { fsync: 'off', full_page_writes: 'off' } })
  const runner = new MutantRunner({ root: ROOT, serverUrl: server.connectionString, signal })
  try {
    await requireSoundTests(runner, mutants)
    const results: Result[] = []
    for (const mutant of mutants) results.push(await examine(runner, mutant))
    return results
  } catch (error) {
    if (!signal.aborted) throw error
    console.error('\ninterrupted')
    return undefined
  } finally {
    runner.close()
    await server.stop()
  }
}

async function requireSoundTests(runner: MutantRunner, mutants: readonly Mutant[]): Promise<void> {
  const startedAt = performance.now()
  const { passed, failed, reason } = await runner.control(mutants)
  if (failed) throw new Error(`without any mutant a test fails: ${failed}\n${reason}`)
  console.log(`${passed} tests pass without a mutant, in ${secondsSince(startedAt)} s`)
}

async function examine(runner: MutantRunner, mutant: Mutant): Promise<Result> {
  const startedAt = performance.now()
  process.stdout.write(`${mutant.name} … `)
  const examination = await runner.examine(mutant)
  const { verdict, reason } = examination
  const paint = verdict === 'noticed' ? pc.green : pc.red
  console.log(`${paint(verdict)} ${pc.dim(reason?.slice(0, 160) ?? '')}`)
  return { ...examination, mutant, seconds: secondsSince(startedAt) }
}

function secondsSince(startedAt: number): number {
  return Math.round((performance.now() - startedAt) / 1000)
}

/** Returns the exit code. */
function report(results: readonly Result[]): number {
  const table = new Table({
    head: ['mutant', 'breaks', 'noticed by', 's'],
    colWidths: [40, 8, 90, 5],
    wordWrap: true,
    style: { head: [], border: [] },
  })
  table.push(
    ...results.map(({ mutant, verdict, by, reason, seconds }) => [
      mutant.name,
      mutant.promise,
      verdict === 'noticed' ? by : verdict === 'broken' ? `no mutant: ${reason}` : 'NOBODY',
      seconds,
    ]),
  )
  const noticed = results.filter(({ verdict }) => verdict === 'noticed').length
  console.log(`${table}\n${noticed} of ${results.length} mutants noticed`)
  return noticed === results.length ? 0 : 1
}

process.exitCode = await main().catch((error: Error) => {
  console.error(pc.red(error.message))
  return 1
})
