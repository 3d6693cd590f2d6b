import type pg from 'pg'
import { DatabaseError, Lockstep } from '../../index.ts'
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
  /** @throws DatabaseError if the database doesn't answer, or the gateway can't work with it */
  ask(): Promise<void>
  close(): Promise<void>
}

export type Pools = ReadonlyMap<string, ServedPool>

export function openPools(configs: ReadonlyMap<string, PoolConfig>): Pools {
  return new Map([...configs].map(([name, config]) => [name, openPool(config)]))
}

/**
 * What is wrong with a database is told at once. One that can't be reached is no reason not to serve the others.
 * @throws DatabaseError, such as `LOCKSTEP_SCHEMA_MISSING` or `LOCKSTEP_PERMISSION`, or if none can be reached
 */
export async function requireReady(pools: Pools): Promise<void> {
  const asked = await Promise.allSettled([...pools.values()].map((pool) => pool.ask()))
  const failed = [...pools.keys()].flatMap((name, index) => {
    const one = asked[index]!
    return one.status === 'rejected' ? [{ name, error: one.reason as unknown }] : []
  })
  const wrong = failed.find(({ error }) => !isAway(error)) ?? (failed.length === pools.size && failed[0])
  if (wrong) throw wrong.error
  for (const { name, error } of failed)
    servingLogger.warn({ event: 'http-pool', error }, `the pool "${name}" is not served until it answers`)
}

function isAway(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === 'LOCKSTEP_CONNECTION'
}

async function requireUsable(lockstep: Lockstep): Promise<void> {
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
  let isUsable = false
  const ask = async () => {
    if (isUsable) return void (await lockstep.snapshotAge())
    await requireUsable(lockstep)
    isUsable = true
  }
  const close = async () => {
    await lockstep.close()
    await pool.end()
  }
  return { lockstep, migrateTo, ask, close }
}
