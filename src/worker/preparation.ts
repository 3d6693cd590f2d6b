import { hostname } from 'node:os'
import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import { ensureQueue, listQueues } from '../store/queue.ts'
import { VERSION } from '../version.ts'
import type { LeaseOptions } from './lease.ts'
import type { WorkerHome, WorkerSettings } from './options.ts'
import { ServedQueues } from './served-queues.ts'
import type { ServedQueue } from './timetable.ts'

const MAX_LOCK_TIMEOUT = 500

/** Creates the queues where they are missing; a definition that differs from its row is told, and the row holds. */
export async function serveQueues(
  database: Database,
  queues: readonly Queue[],
  logger: Logger,
): Promise<ServedQueues> {
  const served: ServedQueue[] = []
  for (const queue of queues) {
    served.push({ queue, queueId: await ensureQueue(database, queue.name, queue.shards) })
  }
  const rows = await listQueues(
    database,
    queues.map(({ name }) => name),
  )
  for (const { queueId, name, shards } of rows) {
    const defined = served.find((one) => one.queueId === queueId)?.queue.shards
    if (defined === shards) continue
    logger.warn(
      { queue: name, shards, defined },
      'the queue has other shards than its definition: see `reshard`',
    )
  }
  return new ServedQueues(database, logger, served)
}

/**
 * ms a completion in a handler's transaction waits for a producer's. Below the server's deadlock_timeout: in a
 * deadlock it is always we who give way, never the application.
 */
export async function readLockTimeout(database: Database): Promise<number> {
  const [row] = await database.query<{ timeout: number }>(
    "SELECT extract(epoch FROM current_setting('deadlock_timeout')::interval)::float8 * 1000 AS timeout",
  )
  return Math.max(1, Math.min(MAX_LOCK_TIMEOUT, Math.floor(row!.timeout / 2)))
}

/** What the process tells of itself, and how it keeps its lease. */
export function leaseOptions(
  { slots, queues, lease, killOnLeaseEnd }: WorkerSettings,
  { directConfig, schema }: WorkerHome,
  told: Pick<LeaseOptions, 'onEnding' | 'onFailure'>,
): LeaseOptions {
  const names = queues.map(({ name }) => name)
  const info = { host: hostname(), pid: process.pid, version: VERSION, slots, queues: names }
  return { config: directConfig, schema, info, lease, killAtEnd: killOnLeaseEnd, ...told }
}
