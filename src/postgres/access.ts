import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { OptionError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import { show } from '../options.ts'
import { refuseBinary } from './binary.ts'
import type { ConnectionConfig } from './client.ts'
import { checkConnectionString, connectionConfig, isPool } from './connection.ts'
import { type CreateClient, checkCreateClient, createdConfig } from './create-client.ts'
import { Database } from './database.ts'
import { createPool } from './pool.ts'
import { connectionConfigOf } from './pool-options.ts'
import { checkSchemaName, DEFAULT_SCHEMA } from './schema-name.ts'

export interface AccessOptions {
  /** The database to connect to. Give either this or a `pool`. */
  readonly connectionString?: string | undefined
  /**
   * The application's own pool, for producing and administering. Workers open their own connections with its options, also
   * if these have functions: a `password` that is fetched for each connection, a `stream`, `ssl.checkServerIdentity`, a
   * `Client` class. They do not have those of the pool itself (`max`, `onConnect`, …), and `connectionTimeoutMillis` is 10 s
   * at least. One with the driver's `binary` is refused.
   */
  readonly pool?: pg.Pool
  /** The schema that holds the tables. Default `lockstep`. */
  readonly schema?: string
  /** A connection string that bypasses any pooler, for what a worker can't do through one. Default: the same connection. */
  readonly directUrl?: string | undefined
  /**
   * Creates the client of every connection that a worker opens, for drivers and logins that a pool's options don't say; or
   * the URL of a module whose default export does. Give either this or `directUrl`.
   *
   * With a function, a worker renews its lease in the main thread: a handler that blocks the event loop for longer than the
   * lease loses it, and others may perform its ids meanwhile. A module is loaded by the lease's thread, too, and avoids that.
   * Default: the pool's options, or the connection string.
   * @throws OptionError at the worker's start, if it returns anything but a new client; DatabaseError `LOCKSTEP_CONNECTION`
   * if it throws
   */
  readonly createClient?: CreateClient | URL | undefined
}

export const ACCESS_OPTIONS = ['connectionString', 'pool', 'schema', 'directUrl', 'createClient']

/** The configs of a worker's connections. */
export interface WorkerConfigs {
  readonly config: ConnectionConfig
  /** For connections that need a session of their own: locks, lease and wake-up. */
  readonly directConfig: ConnectionConfig
}

const APPLICATION_NAME = 'pg-lockstep'
/** ms between checks whether calls still wait for a connection. */
const CLOSING_PAUSE = 5

/** How an application reaches its database: through a pool of its own or one of ours, and from workers. */
export class Access {
  readonly database: Database
  /** Undefined with a pool of the application's. */
  readonly #config: ConnectionConfig | undefined
  readonly #directConfig: ConnectionConfig | undefined
  readonly #createClient: CreateClient | URL | undefined

  /**
   * Connects on first use.
   * @throws OptionError
   */
  constructor(options: AccessOptions, logger: Logger) {
    const { connectionString, pool, directUrl, createClient, schema = DEFAULT_SCHEMA } = options
    if ((connectionString === undefined) === (pool === undefined))
      throw new OptionError('Lockstep: give either `connectionString` or `pool`')
    if (pool !== undefined && !isPool(pool))
      throw new OptionError(`Lockstep: pool must be a Pool of \`pg\`, not ${show(pool)}`)
    refuseBinary(pool)
    this.#config = configOf(connectionString, 'connectionString')
    this.#directConfig = configOf(directUrl, 'directUrl')
    if (directUrl !== undefined && createClient !== undefined)
      throw new OptionError('Lockstep: give either `directUrl` or `createClient`')
    this.#createClient = createClient === undefined ? undefined : checkCreateClient(createClient)
    this.database = new Database(pool ?? createPool(this.#config!, logger), checkSchemaName(schema))
  }

  /** @throws OptionError if a worker can't have the options of the application's pool */
  workerConfigs(): WorkerConfigs {
    const create = this.#createClient
    if (create) {
      const configFor = (direct: boolean) => createdConfig(create, { direct }, APPLICATION_NAME)
      return { config: configFor(false), directConfig: configFor(true) }
    }
    const config = this.#config ?? connectionConfigOf(this.database.pool, APPLICATION_NAME)
    return { config, directConfig: this.#directConfig ?? config }
  }

  /** Ends our own pool, and leaves the application's alone. */
  async close(): Promise<void> {
    if (!this.#config) return
    const { pool } = this.database
    // An ended pool forgets calls that wait for a connection, so their promises would never settle.
    while (pool.waitingCount > 0) await sleep(CLOSING_PAUSE)
    await pool.end()
  }
}

function configOf(url: string | undefined, name: string): ConnectionConfig | undefined {
  if (url === undefined) return undefined
  return connectionConfig(checkConnectionString(url, `Lockstep: ${name}`), APPLICATION_NAME)
}
