import { Command, CommanderError } from 'commander'
import { VERSION } from '../version.ts'
import { addAudit } from './audit.ts'
import { addDeleteQueue } from './delete-queue.ts'
import { addDemo } from './demo.ts'
import { addEnqueue } from './enqueue.ts'
import { EXIT } from './exit.ts'
import { reportFailure, shown } from './failure.ts'
import { addJobs } from './jobs.ts'
import { addMigrate } from './migrate.ts'
import { addMorgue } from './morgue.ts'
import { colorsFor } from './output.ts'
import { addPause, addResume } from './pause.ts'
import { addProcesses } from './processes.ts'
import { addReshard } from './reshard.ts'
import { addRoles } from './roles.ts'
import { addServe } from './serve.ts'
import { addStats } from './stats.ts'
import { nearestOf } from './suggest.ts'
import { addTenants } from './tenants.ts'
import { addToken } from './token.ts'
import { addTop } from './top.ts'
import { addWeb } from './web.ts'
import { addWork } from './work.ts'

const HELP = `
Environment:
  DATABASE_URL         the database; safer than --database-url, which shows in the process list
  DATABASE_DIRECT_URL  the same database, bypassing any pooler; for workers
  LOCKSTEP_SCHEMA      schema that holds the tables
  NO_COLOR             turn colours off
  DEBUG=lockstep       show where an error comes from

Exit codes:
  0    success
  1    failure: the database or the data did not allow it
  2    wrong usage
  75   work only: a later release must take its place
  130  interrupted; 129 by SIGHUP, 143 by SIGTERM

Examples:
  $ lockstep demo
  $ lockstep migrate
  $ lockstep enqueue orders orders.csv --id order --score version
  $ lockstep work -r ./queues.ts
  $ lockstep top

Run lockstep <command> --help for details.`

const COMMANDS = [
  addDemo,
  addMigrate,
  addRoles,
  addWork,
  addEnqueue,
  addStats,
  addTop,
  addWeb,
  addServe,
  addProcesses,
  addJobs,
  addMorgue,
  addTenants,
  addPause,
  addResume,
  addReshard,
  addDeleteQueue,
  addAudit,
  addToken,
]

/** The whole command line. Parsing the arguments runs the command. */
export function createProgram(): Command {
  const program = new Command('lockstep')
    .description('Ordered background jobs on the Postgres you already run.')
    .version(VERSION)
    .addHelpText('beforeAll', ({ command }) => requireKnownCommand(command))
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(shown(text.replace(/^error: /, 'lockstep: '))) })
    .configureHelp({ styleTitle: (text) => colorsFor(process.stdout).bold(text) })
    .showSuggestionAfterError()
  for (const add of COMMANDS) add(program)
  return program
}

/** Commander answers --help even after an unknown command, so that the mistake would go unnoticed. */
function requireKnownCommand(command: Command): string {
  const [first, second] = command.args
  const name = first === 'help' ? second : first
  const known = command.commands.map((one) => one.name())
  if (known.length === 0 || name === undefined || name.startsWith('-') || known.includes(name)) return ''
  const near = nearestOf(name, known)
  const hint = near === undefined ? '' : `\n(Did you mean ${near}?)`
  return command.error(`error: unknown command '${name}'${hint}`)
}

/** Runs the command line of this process and sets its exit code. */
export async function main(): Promise<void> {
  // The reader of our output may close the pipe early: `lockstep jobs find orders | head`.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.ok)
    throw error
  })
  try {
    await createProgram().parseAsync()
  } catch (error) {
    process.exitCode = error instanceof CommanderError ? usageCode(error) : reportFailure(error)
  }
}

/** Asking for help is not a mistake. Commander has already printed its message. */
function usageCode({ exitCode }: CommanderError): number {
  return exitCode === 0 ? EXIT.ok : EXIT.usage
}
