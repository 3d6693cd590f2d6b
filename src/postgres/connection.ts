import pg from 'pg'
import { DatabaseError, OptionError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import { prepareSession } from './session.ts'

/** How to reach a database: what `pg.Client` takes. Every field survives being sent to another thread. */
export type ConnectionConfig = pg.ClientConfig

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

/** Where the server is, and what holds in its sessions. */
const COPIED = [
  'host',
  'port',
  'user',
  'database',
  'connectionString',
  'password',
  'ssl',
  'options',
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
] as const satisfies readonly (keyof pg.PoolConfig)[]

/**
 * The same for an application's pool: its options without what belongs to the pool, or to the driver's own waiting.
 * @throws OptionError where they can't be copied to a session of our own
 */
export function connectionConfigOf(pool: pg.Pool, applicationName: string): ConnectionConfig {
  const { password, ...options } = pool.options as pg.PoolConfig
  if (typeof password === 'function') {
    throw new OptionError(
      'a pool whose password is a function needs `directUrl` for the workers’ own connections',
    )
  }
  const given = Object.fromEntries(
    COPIED.map((name) => [name, { ...options, password }[name]]).filter(([, value]) => value !== undefined),
  )
  return { ...connectionConfig('', applicationName), connectionString: undefined, ...given }
}

/**
 * The same with a setting that holds from the session's beginning on, for one whose statements others' code sends. Poolers
 * refuse it. Beside options that stand in the connection string, which the driver prefers.
 */
export function withSetting(config: ConnectionConfig, setting: string): ConnectionConfig {
  const option = `-c ${setting}`
  const { connectionString = '' } = config
  const url = URL.canParse(connectionString) ? new URL(connectionString) : undefined
  const given = url?.searchParams.get('options')
  if (!url || !given) {
    const options = [config.options ?? process.env.PGOPTIONS, option].filter(Boolean).join(' ')
    return { ...config, options }
  }
  url.searchParams.set('options', `${given} ${option}`)
  return { ...config, connectionString: url.href }
}

/**
 * A connected session of ours outside any pool, for our statements alone, with a setting of its own; the caller ends it.
 * @throws DatabaseError `LOCKSTEP_POOLED` where others may share it: locks, leases and wake-ups would be theirs
 */
export async function connect(config: ConnectionConfig, setting?: string): Promise<pg.Client> {
  const client = new pg.Client(config)
  // It may break between two statements, when nobody waits: an error nobody listens to ends the process.
  client.on('error', () => {})
  await client.connect()
  try {
    const { shared } = await prepareSession(client, 'own')
    if (!shared && setting) await client.query(setting)
    if (!shared) return client
  } catch (error) {
    client.end().catch(() => {})
    throw error
  }
  await client.end()
  throw new DatabaseError(
    'LOCKSTEP_POOLED',
    'the connection goes through a pooler, but locks, lease and wake-up need a session of their own: name a direct connection in `directUrl`',
  )
}

/** A pool of ours. A connection that breaks is replaced when the next one is needed. */
export function createPool(config: pg.PoolConfig, logger: Logger): pg.Pool {
  const pool = new pg.Pool(config)
  pool.on('error', (error) => logger.warn({ error: error.message }, 'an idle connection broke'))
  return pool
}
