import pg from 'pg'
import { OptionError } from '../errors.ts'
import type { Logger } from '../logger.ts'

/** How to reach a database: what `pg.Client` takes. Every field survives being sent to another thread. */
export type ConnectionConfig = pg.ClientConfig

/** A dead peer is noticed within some ten seconds, on both ends of the wire. */
const SESSION_SETTINGS = [
  'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED',
  'SET tcp_keepalives_idle = 3',
  'SET tcp_keepalives_interval = 2',
  'SET tcp_keepalives_count = 3',
  'SET tcp_user_timeout = 9000',
]

/** What others' statements can leave in a session, but for prepared statements, which the driver relies on. */
const RESETS = [
  'RESET SESSION AUTHORIZATION',
  'RESET ROLE',
  'RESET ALL',
  'CLOSE ALL',
  'UNLISTEN *',
  'DISCARD TEMP',
  'DISCARD SEQUENCES',
  'SELECT pg_catalog.pg_advisory_unlock_all()',
]

/** For sessions that are ours alone. */
const renewals = new WeakMap<object, string>()

const CONNECT_TIMEOUT = 10_000

/** The config of a session of ours. */
export function connectionConfig(connectionString: string, applicationName: string): ConnectionConfig {
  return {
    connectionString,
    application_name: applicationName,
    keepAlive: true,
    keepAliveInitialDelayMillis: 3_000,
    connectionTimeoutMillis: CONNECT_TIMEOUT,
  }
}

/**
 * The same for an application's pool: its options without what belongs to the pool.
 * @throws OptionError where they can't be copied to a session of our own
 */
export function connectionConfigOf(pool: pg.Pool, applicationName: string): ConnectionConfig {
  const { host, port, user, database, connectionString, password, ssl } = pool.options as pg.PoolConfig
  if (typeof password === 'function') {
    throw new OptionError(
      'a pool whose password is a function needs `directUrl` for the workers’ own connections',
    )
  }
  const where = { host, port, user, database, connectionString, password, ssl }
  const given = Object.fromEntries(Object.entries(where).filter(([, value]) => value !== undefined))
  return { ...connectionConfig('', applicationName), connectionString: undefined, ...given }
}

/** READ COMMITTED whatever the database's default is: the protocol's reasoning rests on it. */
export async function prepareSession(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  await client.query(SESSION_SETTINGS.join('; '))
  // Lets the server notice a vanished client in the middle of a long statement; not on every platform.
  const checking = 'SET client_connection_check_interval = 5000'
  const checks = await client.query(checking).catch(() => {})
  // A pooler tells a process id of its own.
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
  if (rows[0].pid !== (client as { readonly processID?: number }).processID) return
  renewals.set(client, [...RESETS, ...SESSION_SETTINGS, ...(checks ? [checking] : [])].join('; '))
}

/**
 * Statements after which a session is as it was when it was new, in a transaction of their own; none for a session that we
 * share with others, through a pooler: what is set there is theirs.
 */
export function renewalOf(client: object): string {
  const renewal = renewals.get(client)
  return renewal ? `BEGIN; ${renewal}; COMMIT;` : ''
}

/** A connected session of ours outside any pool; the caller ends it. */
export async function connect(config: ConnectionConfig): Promise<pg.Client> {
  const client = new pg.Client(config)
  // It may break between two statements, when nobody waits: an error nobody listens to ends the process.
  client.on('error', () => {})
  await client.connect()
  await prepareSession(client)
  return client
}

/** A pool of ours. A connection that breaks is replaced when the next one is needed. */
export function createPool(config: pg.PoolConfig, logger: Logger): pg.Pool {
  const pool = new pg.Pool(config)
  pool.on('error', (error) => logger.warn({ error: error.message }, 'an idle connection broke'))
  // One that is lent out has no listener of the pool's, and an error nobody listens to ends the process. What is
  // asked of it next fails, and tells.
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}
