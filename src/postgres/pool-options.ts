import { Socket } from 'node:net'
import pg from 'pg'
import { DatabaseError, OptionError } from '../errors.ts'
import { type ConnectionConfig, called } from './client.ts'
import { CONNECT_TIMEOUT, connectionConfig } from './connection.ts'

/**
 * Options of a pool that a worker's connections do not have: those of the pool itself, and of the driver's own waiting.
 * `binary` and `pipeline` would change what its statements return, and when.
 */
const NOT_COPIED: ReadonlySet<string> = new Set([
  'Client',
  'Promise',
  'allowExitOnIdle',
  'binary',
  'connection',
  'connectionTimeoutMillis',
  'idleTimeoutMillis',
  'keepAlive',
  'keepAliveInitialDelayMillis',
  'log',
  'max',
  'maxLifetimeSeconds',
  'maxUses',
  'min',
  'onConnect',
  'pipeline',
  'poolSize',
  'query_timeout',
  'verify',
])

/** The passwords that functions have returned last. */
const lastPasswords = new WeakMap<object, unknown>()

type Options = pg.PoolConfig & { readonly Client?: unknown }

/**
 * The config of a worker's own connections, from an application's pool: it has the same server, login, encryption, settings
 * and class of client.
 * @throws OptionError if the pool has one `stream` for all its connections
 */
export function connectionConfigOf(pool: pg.Pool, applicationName: string): ConnectionConfig {
  const options = pool.options as Options
  if (options.stream !== undefined && typeof options.stream !== 'function')
    throw new OptionError(
      'Lockstep: the `stream` of the pool is no function, so only one connection can have it: make it a function that returns a new one',
    )
  const config = { ...connectionConfig(undefined, applicationName), ...copied(options) }
  const Class = classOf(pool)
  return Class ? { ...config, create: (given) => new Class(given) } : config
}

function copied(options: Options): pg.ClientConfig {
  const given = Object.entries(options).filter(
    ([name, value]) => value !== undefined && !NOT_COPIED.has(name),
  )
  const { password, connectionTimeoutMillis = 0 } = options
  return {
    ...Object.fromEntries(given),
    // The pool hides it.
    ...(password === undefined
      ? {}
      : { password: typeof password === 'function' ? telling(password) : password }),
    // A shorter one would end what only waits for a connection of a worker's pool.
    connectionTimeoutMillis: Math.max(CONNECT_TIMEOUT, connectionTimeoutMillis),
  }
}

type PasswordFunction = Extract<pg.ClientConfig['password'], (...given: never[]) => unknown>

/** Tells that it was the password that could not be had, and remembers it. */
function telling(password: PasswordFunction): PasswordFunction {
  const fetch: PasswordFunction = async (...given) => {
    const fetched: unknown = await called(() => password(...given), 'the `password` function of the pool')
    requirePassword(fetched)
    lastPasswords.set(fetch, fetched)
    return fetched
  }
  return fetch
}

/** The driver would go on without, and the server, or the driver itself, would say only that the login failed. */
function requirePassword(fetched: unknown): asserts fetched is string {
  if (typeof fetched === 'string' && fetched !== '') return
  // Anything else may have the password in it.
  const told = fetched === '' ? 'an empty text' : fetched === undefined ? 'undefined' : 'no text'
  throw new DatabaseError(
    'LOCKSTEP_AUTHENTICATION',
    `the \`password\` function of the pool returned ${told}, and the server wants a password: have it return the password, or throw why there is none`,
  )
}

/** The password that the function of a config returned last. */
export function lastPassword({ password }: ConnectionConfig): unknown {
  return typeof password === 'function' ? lastPasswords.get(password) : password
}

type ClientClass = new (config: pg.ClientConfig) => pg.Client

/** The class of a pool's clients, if ours would not do. */
function classOf(pool: pg.Pool): ClientClass | undefined {
  const { Client } = pool as unknown as { readonly Client?: ClientClass }
  if (typeof Client !== 'function' || Client === pg.Client) return undefined
  return (pool.options as Options).Client || hasOwnTransport(Client) ? Client : undefined
}

/** Another copy of `pg`, and pg-native, use TCP like ours. Others have it through a WebSocket, as Neon's does. */
function hasOwnTransport(Client: ClientClass): boolean {
  const { connection } = new Client({ host: 'localhost' })
  return connection !== undefined && !(connection.stream instanceof Socket)
}
