import pg from 'pg'
import type { Logger } from '../logger.ts'
import type { ConnectionConfig } from './client.ts'
import { CreatingPool } from './creating-pool.ts'
import { ModestPool } from './modest-pool.ts'

/** A login that fails at the client, as without a password, leaves the connection open: a pool would forget it. */
class PooledClient extends pg.Client {
  override connect(): Promise<pg.Client>
  override connect(callback: (error: Error | null) => void): void
  override connect(callback?: (error: Error | null) => void): Promise<pg.Client> | undefined {
    // The pool listens only once it is called back, and the server may end the session together with its login.
    this.on('error', () => {})
    const connecting = super.connect().catch((error) => {
      this.connection?.stream.destroy()
      throw error
    })
    if (!callback) return connecting
    connecting.then(() => callback(null), callback)
    return undefined
  }
}

/** The options of a pool of ours. */
export interface OwnPoolConfig extends ConnectionConfig {
  /** The most connections. Default 10. */
  readonly max?: number
  /** Makes a new connection ready. */
  onConnect?(client: pg.ClientBase): Promise<void>
}

/**
 * Our own pool. It replaces a broken connection when the next one is needed. Connections that idle don't keep the process
 * alive: one that has gone silent would do so long after the pool has ended.
 */
export function createPool({ max, onConnect, ...config }: OwnPoolConfig, logger: Logger): pg.Pool {
  const { connectionTimeoutMillis } = config
  const options = { max, onConnect, connectionTimeoutMillis, allowExitOnIdle: true } as pg.PoolConfig
  const pool = config.create
    ? new CreatingPool(options, config)
    : new ModestPool({ ...config, ...options, Client: PooledClient })
  pool.on('error', (error) => logger.warn({ error: error.message }, 'an idle connection broke'))
  return pool
}
