import type { Command } from 'commander'
import { wholeNumberOption } from './numbers.ts'

const HELP = `
It plays on the database that DATABASE_URL names, in schemas of its own that go with
it; without one, on a Postgres of its own in a temporary directory.

Examples:
  $ lockstep demo
  $ lockstep demo --naive

Exit codes: 0 the promise held, 1 it did not, 2 wrong usage.`

interface DemoFlags {
  readonly naive?: boolean
  readonly json?: boolean
  readonly events?: number
}

export function addDemo(program: Command): void {
  program
    .command('demo')
    .summary('see the promise kept, and broken')
    .description('Works real events off with workers that are killed on the way, and judges the outcome.')
    .option('--naive', 'the same without the promise, to compare')
    .option('--json', 'write JSON, for scripts')
    .option('--events <n>', 'how many events', wholeNumberOption(1))
    .addHelpText('after', HELP)
    .action(async ({ naive = false, json = false, events }: DemoFlags) => {
      const { runDemo } = await import('./demo/demo.ts')
      process.exitCode = await runDemo({ naive, json, events })
    })
}
