import type { Command } from 'commander'
import { type ConnectionOptions, checkConnection, withConnection } from './connection.ts'
import { UsageError } from './failure.ts'
import { collect, wholeNumberOption } from './numbers.ts'

const DEFAULT_PORT = 4010

const HELP = `
On this machine only, the command prints a link that works once: it logs one browser in
until the command ends. To be reached from elsewhere, give --host, and say who may come in:

  names and passwords  one "user:password" a line, in the variable LOCKSTEP_BASIC_AUTH
                       or in the file of --basic-auth-file, so that no process list
                       shows them; these also replace the link on this machine
  --open               whoever reaches the port may do everything

It speaks HTTP: put a proxy with TLS before it, and name the address that browsers use
with --origin if the proxy changes the header Host. SIGTERM and SIGINT stop it: requests
have 5 seconds to end; an action that is cut off stops, and what is done stays done.

Examples:
  $ lockstep web
  $ lockstep web --port 0 --read-only
  $ LOCKSTEP_BASIC_AUTH=anna:secret lockstep web --host 0.0.0.0
  $ lockstep web --host 0.0.0.0 --basic-auth-file /run/secrets/lockstep --path /jobs

Environment:
  LOCKSTEP_BASIC_AUTH  who may come in, one "user:password" a line

Exit codes: 0 stopped by a signal, 1 failure, such as a port in use, 2 wrong usage.`

export interface WebFlags extends ConnectionOptions {
  readonly port: number
  readonly host: string
  readonly path: string
  readonly readOnly?: boolean
  readonly basicAuthFile?: string
  readonly open?: boolean
  readonly origin?: readonly string[]
}

export function addWeb(program: Command): void {
  const command = program
    .command('web')
    .summary('serve the web page')
    .description('serve the web page and its JSON API, until told to stop')
    .option(
      '--port <n>',
      'port to listen on; 0: any that is free',
      wholeNumberOption(0, 65_535),
      DEFAULT_PORT,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--path <path>', 'path of the page', '/')
    .option('--read-only', 'refuse whatever changes something')
    .option('--basic-auth-file <file>', 'file with a line "user:password" for each who may come in')
    .option('--open', 'let everyone in')
    .option('--origin <url>', 'what browsers have as the origin of the page; may be repeated', collect)
  withConnection(command).addHelpText('after', HELP).action(web)
}

async function web(flags: WebFlags): Promise<void> {
  checkConnection(flags)
  const { serveWeb } = await import('./web/serve.ts').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || !/'hono'/.test(error.message)) throw error
    throw new UsageError('the web page needs hono, which is not installed: install it')
  })
  await serveWeb(flags)
}
