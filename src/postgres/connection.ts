import type pg from 'pg'
import { DatabaseError, OptionError } from '../errors.ts'
import { nameOf } from '../options.ts'
import { type ConnectionConfig, inTime, newClient } from './client.ts'
import { NEVER_IDLE, prepareSession } from './session.ts'

/** ms. */
export const CONNECT_TIMEOUT = 10_000
/** ms. A server that is there closes at once. */
const CLOSE_TIMEOUT = 1_000

/** The config of one of our own sessions. */
export function connectionConfig(
  connectionString: string | undefined,
  applicationName: string,
): ConnectionConfig {
  return {
    connectionString,
    application_name: applicationName,
    keepAlive: true,
    keepAliveInitialDelayMillis: 3_000,
    connectionTimeoutMillis: CONNECT_TIMEOUT,
  }
}

/** What `pg` reads as one: a URL, or a directory with the server's socket. */
const READABLE = /^(\/|socket:|[a-z]+:\/\/)/i

/**
 * Its text is not told, since it may have a password in it.
 * @throws OptionError if `pg` would take it for something else
 */
export function checkConnectionString(given: string, name: string): string {
  if (given === '') throw new OptionError(`${name} is empty: is its variable set?`)
  if (typeof given === 'string' && READABLE.test(given)) return given
  const wrong = typeof given === 'string' ? 'a text that begins otherwise' : nameOf(given)
  throw new OptionError(
    `${name} must be a URL such as postgres://user@host/database, or the directory of a socket, not ${wrong}`,
  )
}

/** Not by its class: an application may have another copy of the driver. */
export function isPool(value: unknown): value is pg.Pool {
  const { connect, query, options } = Object(value)
  return (
    typeof connect === 'function' &&
    typeof query === 'function' &&
    typeof options === 'object' &&
    options !== null
  )
}

/**
 * Adds a setting that holds from the start of the session, for sessions in which others' code runs statements. Poolers
 * refuse it. Appends to options in the connection string, since the driver prefers those.
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
 * Connects our own session outside any pool, only for our statements. `setting`: how long it may idle; by default, for ever.
 * The caller ends it.
 * @throws DatabaseError `LOCKSTEP_POOLED` if others may share it: they would share its locks, leases and wake-ups
 */
export async function connect(config: ConnectionConfig, setting = NEVER_IDLE): Promise<pg.Client> {
  const client = await newClient(config)
  // The session may break between two statements, and an error event without a listener ends the process.
  client.on('error', () => {})
  try {
    await inTime(client.connect(), config.create && config.connectionTimeoutMillis)
    const { shared } = await prepareSession(client, 'own')
    if (!shared) {
      await client.query(setting)
      return client
    }
  } catch (error) {
    void disconnect(client)
    throw error
  }
  await disconnect(client)
  throw new DatabaseError(
    'LOCKSTEP_POOLED',
    'the connection goes through a pooler, but locks, lease and wake-up need their own session: set `directUrl` to a direct connection, or have `createClient` return a direct one',
  )
}

/** Closes a connection. One that has gone silent never closes by itself, and would keep the process alive: it is cut off. */
export async function disconnect(client: pg.Client): Promise<void> {
  const cutOff = setTimeout(() => client.connection?.stream.destroy(), CLOSE_TIMEOUT)
  await client.end().catch(() => {})
  clearTimeout(cutOff)
}
