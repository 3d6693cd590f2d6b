import type { Command } from 'commander'
import { UsageError } from './failure.ts'
import { wholeNumberOption } from './numbers.ts'

const HELP = `
The demo runs in the database that DATABASE_URL names. It creates its own schemas there and
drops them at the end. Without DATABASE_URL, it starts a Postgres in a temporary directory.

Examples:
  $ lockstep demo
  $ lockstep demo --naive
  $ lockstep demo --web

Exit codes: 0 the result was as promised (with --naive: something went wrong),
1 it was not, 2 wrong usage.`

interface DemoFlags {
  readonly naive?: boolean
  readonly web?: boolean
  readonly json?: boolean
  readonly events?: number
}

export function addDemo(program: Command): void {
  program
    .command('demo')
    .summary('watch workers being killed and the result checked')
    .description('process real events, kill a worker on the way, and check the result')
    .option('--naive', 'use plain workers without order, to compare')
    .option('--web', 'show it on a web page, too, until Ctrl-C')
    .option('--json', 'print JSON, for scripts')
    .option('--events <n>', 'number of events', wholeNumberOption(1))
    .addHelpText('after', HELP)
    .action(async ({ naive = false, web = false, json = false, events }: DemoFlags) => {
      if (web && (naive || json))
        throw new UsageError(`--web and ${naive ? '--naive' : '--json'} exclude each other: use one of them`)
      const { runDemo } = await import('./demo/demo.ts')
      process.exitCode = await runDemo({ naive, web, json, events })
    })
}
