import type { Command } from 'commander'
import { wholeNumberOption } from './numbers.ts'

const HELP = `
The demo runs in the database that DATABASE_URL names. It creates its own schemas there and
drops them at the end. Without DATABASE_URL, it starts a Postgres in a temporary directory.

Examples:
  $ lockstep demo
  $ lockstep demo --naive

Exit codes: 0 the result was as promised (with --naive: something went wrong),
1 it was not, 2 wrong usage.`

interface DemoFlags {
  readonly naive?: boolean
  readonly json?: boolean
  readonly events?: number
}

export function addDemo(program: Command): void {
  program
    .command('demo')
    .summary('watch workers being killed and the result checked')
    .description('process real events, kill a worker on the way, and check the result')
    .option('--naive', 'use plain workers without order, to compare')
    .option('--json', 'print JSON, for scripts')
    .option('--events <n>', 'number of events', wholeNumberOption(1))
    .addHelpText('after', HELP)
    .action(async ({ naive = false, json = false, events }: DemoFlags) => {
      const { runDemo } = await import('./demo/demo.ts')
      process.exitCode = await runDemo({ naive, json, events })
    })
}
