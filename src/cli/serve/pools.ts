import type pg from 'pg'
import { Lockstep } from '../../index.ts'
import { insideOf } from '../../lockstep.ts'
import { connectionConfig } from '../../postgres/connection.ts'
import { createPool } from '../../postgres/pool.ts'
import { requireMigrated } from '../../postgres/release.ts'
import { requireRights } from '../../postgres/rights.ts'
import { prepareSession } from '../../postgres/session.ts'
import { servingLogger } from '../stderr-logger.ts'
import type { PoolConfig } from './config.ts'

/**
 * ms after which a call fails that the database has not answered: its connection may have gone silent, and would keep every call that
 * waits for it. Longer than anything that a gateway asks for takes, and shorter than clients have patience.
 */
const CALL_TIMEOUT = 20_000

/** A database of the gateway. */
export interface ServedPool {
  readonly lockstep: Lockstep
  readonly migrateTo: string | undefined
  close(): Promise<void>
}

export type Pools = ReadonlyMap<string, ServedPool>

export function openPools(configs: ReadonlyMap<string, PoolConfig>): Pools {
  return new Map([...configs].map(([name, config]) => [name, openPool(config)]))
}

/**
 * What is wrong with a database is told at once.
 * @throws DatabaseError, such as `LOCKSTEP_SCHEMA_MISSING` or `LOCKSTEP_PERMISSION`
 */
export async function requireReady({ lockstep }: ServedPool): Promise<void> {
  const { database } = insideOf(lockstep)
  // First: without its rights it may not even read what was migrated.
  await requireRights(database, 'gateway')
  await requireMigrated(database)
}

/**
 * Its sessions are the gateway's alone, so defaults of the role or the database that suit others' statements don't hold: a push may wait
 * for a row longer than those may, and one that was answered is durable.
 */
function openPool({ connectionString, directUrl, schema, migrateTo }: PoolConfig): ServedPool {
  const onConnect = async (client: pg.ClientBase) => void (await prepareSession(client, 'own', CALL_TIMEOUT))
  const config = {
    ...connectionConfig(connectionString, 'pg-lockstep'),
    query_timeout: CALL_TIMEOUT,
    onConnect,
  }
  const pool = createPool(config, servingLogger)
  const lockstep = new Lockstep({ pool, schema, logger: servingLogger, directUrl })
  const close = async () => {
    await lockstep.close()
    await pool.end()
  }
  return { lockstep, migrateTo, close }
}
