import { setFlagsFromString } from 'node:v8'
import type { Command } from 'commander'
import { type ConnectionOptions, withConnection } from './connection.ts'
import { UsageError } from './failure.ts'
import { wholeNumberOption } from './numbers.ts'

/** lmstfy's own. */
const DEFAULT_PORT = 7777
const DEFAULT_ADMIN_PORT = 7778
export const LARGEST_PORT = 65_535
/** s */
export const MOST_DRAIN_DELAY = 3_600

const NEEDED = /'(hono|zod|prom-client)'/

const HELP = `
It serves an HTTP API under /v1, whose tokens "lockstep token" makes, and lmstfy's API
under /api, whose administration has a port of its own, on this machine only unless
--admin-host says otherwise. Several gateways may run side by side.

The file of --config holds JSON; what the command line says goes first:

  {
    "host": "0.0.0.0", "port": 7777,
    "adminHost": "127.0.0.1", "adminPort": 7778,
    "admin": { "username": "ops", "password": "$ADMIN_PASSWORD" },
    "pools": { "default": "$DATABASE_URL", "eu": { "url": "$EU_URL", "schema": "lockstep" } },
    "defaults": { "ttl": 86400, "delay": 0, "tries": 1, "ttr": 120, "timeout": 0 },
    "accessLog": false, "maxBodies": 134217728, "drainDelay": 0
  }

Text that begins with $ is the name of an environment variable. A token "eu:..." leads to the
pool eu, in both APIs. In lmstfy's API, a pool with "migrateTo": "eu" hands over the jobs that
it has, while new ones go to eu; in /v1, each pool keeps its own jobs.

It logs in with the role for gateways that "lockstep roles" makes, or as the owner of the
schema, in each pool.

SIGTERM and SIGINT stop it: requests that wait are answered, and others have 25 seconds
to end. Before that, it serves on for --drain-delay seconds, while /readyz says 503, so that
load balancers have time to send no more.

Examples:
  $ lockstep serve
  $ lockstep serve --host 0.0.0.0 --config gateway.json

Exit codes: 0 stopped by a signal, 1 failure, such as a port in use, 2 wrong usage.`

/**
 * Thousands of requests that wait would let the space for new objects grow to many times of what they need. So it stays as it is: with
 * 5,000, that saves a third of the process.
 */
const HEAP = '--semi-space-growth-factor=1'

export interface ServeFlags extends ConnectionOptions {
  readonly host?: string
  readonly port?: number
  readonly adminHost?: string
  readonly adminPort?: number
  readonly drainDelay?: number
  readonly config?: string
}

export function addServe(program: Command): void {
  const command = program
    .command('serve')
    .summary('serve queues over HTTP')
    .description('serve queues over HTTP, to clients in any language, until told to stop')
    .option('--host <address>', 'address to listen on (default: "127.0.0.1")')
    .option(
      '--port <n>',
      `port to listen on; 0: any that is free (default: ${DEFAULT_PORT})`,
      wholeNumberOption(0, LARGEST_PORT),
    )
    .option('--admin-host <address>', 'address of the administration (default: "127.0.0.1")')
    .option(
      '--admin-port <n>',
      `port of the administration (default: ${DEFAULT_ADMIN_PORT})`,
      wholeNumberOption(0, LARGEST_PORT),
    )
    .option(
      '--drain-delay <seconds>',
      'time to serve on, but not be ready, when told to stop (default: 0)',
      wholeNumberOption(0, MOST_DRAIN_DELAY),
    )
    .option('--config <file>', 'file with pools, defaults, and what else the command line could say')
  withConnection(command).addHelpText('after', HELP).action(serve)
}

async function serve(flags: ServeFlags): Promise<void> {
  setFlagsFromString(HEAP)
  const { runGateway } = await import('./serve/run.ts').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || !NEEDED.test(error.message)) throw error
    throw new UsageError('serving needs hono, zod and prom-client: npm install hono zod prom-client')
  })
  await runGateway(flags, { port: DEFAULT_PORT, adminPort: DEFAULT_ADMIN_PORT })
}
