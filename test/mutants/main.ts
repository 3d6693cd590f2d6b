import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { Laboratory } from './laboratory.ts'
import { CLASSIC, MUTANTS, type Mutant } from './mutants.ts'

const USAGE = `npm run mutants -- [--all] [--only part-of-its-name]

Breaks the protocol in a copy of the project, one way after the other, and runs the tests that should notice.
Without --all, the ten classic ways. Exits with 1 if one goes unnoticed.`

/** Row of the table, and whether a test noticed. */
interface Result {
  readonly row: string[]
  readonly noticed: boolean
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { all: { type: 'boolean' }, only: { type: 'string' }, help: { type: 'boolean' } },
  })
  const { only } = values
  const chosen = only ? MUTANTS.filter(({ name }) => name.includes(only)) : values.all ? MUTANTS : CLASSIC
  if (values.help || chosen.length === 0) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  const server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
  const laboratory = new Laboratory(server.connectionString)
  try {
    await requireSoundTests(laboratory, chosen)
    const results: Result[] = []
    for (const mutant of chosen) results.push(await examine(laboratory, mutant))
    print(results)
    return results.every(({ noticed }) => noticed) ? 0 : 1
  } finally {
    laboratory.close()
    await server.stop()
  }
}

/** A test that fails anyway notices nothing. */
async function requireSoundTests(laboratory: Laboratory, mutants: readonly Mutant[]): Promise<void> {
  const tests = [...new Set(mutants.flatMap((mutant) => mutant.tests))]
  const { passed, failed } = await laboratory.examine({ edits: [], tests })
  if (failed || passed === 0) throw new Error(`the tests fail without any mutant: ${failed ?? 'none ran'}`)
  console.log(`${passed} tests pass without a mutant`)
}

/** One that lets no test pass is not subtle: it does not even start. */
async function examine(laboratory: Laboratory, mutant: Mutant): Promise<Result> {
  const startedAt = performance.now()
  const { passed, failed } = await laboratory.examine(mutant)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  const noticed = failed !== undefined && passed > 0
  const by = failed === undefined ? 'NOBODY' : passed > 0 ? failed : `it breaks everything: ${failed}`
  console.log(`${noticed ? 'noticed' : 'NOT NOTICED'}: ${mutant.name}`)
  return { row: [mutant.name, mutant.promise, by, seconds], noticed }
}

function print(results: readonly Result[]): void {
  const table = new Table({
    head: ['mutant', 'breaks', 'noticed by', 's'],
    colWidths: [40, 8, 90, 5],
    wordWrap: true,
    style: { head: [], border: [] },
  })
  table.push(...results.map(({ row }) => row))
  console.log(table.toString())
}

process.exitCode = await main()
