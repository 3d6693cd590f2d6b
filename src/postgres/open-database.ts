import type pg from 'pg'
import type { Logger } from '../logger.ts'
import { Database } from './database.ts'
import { createPool, type OwnPoolConfig } from './pool.ts'
import { prepareSession, type SessionUse } from './session.ts'

export interface OpenOptions {
  readonly schema: string
  readonly logger: Logger
  readonly use: SessionUse
  /** ms after which our own statement counts as failed. Default none. */
  readonly callTimeout?: number
}

/** A worker's access to the database, with its own pool. Connections are opened and made ready on demand. */
export function openDatabase(config: Omit<OwnPoolConfig, 'onConnect'>, options: OpenOptions): Database {
  const { schema, logger, use, callTimeout } = options
  const onConnect = async (client: pg.ClientBase) => {
    const { shared, isolation } = await prepareSession(client, use, callTimeout)
    if (shared && isolation !== 'read committed') database.wrap()
  }
  const pool = createPool({ ...config, onConnect }, logger)
  const database = new Database(pool, schema, callTimeout)
  return database
}
