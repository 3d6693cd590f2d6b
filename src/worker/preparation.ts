import { hostname } from 'node:os'
import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { refuseDistributed } from '../postgres/distribution.ts'
import { requireMigrated } from '../postgres/release.ts'
import { requireRights } from '../postgres/rights.ts'
import { requireSequences } from '../postgres/sequences.ts'
import type { Queue } from '../queue.ts'
import { noteHeld } from '../store/limits.ts'
import { readLockTimeout } from '../store/patience.ts'
import { ensureQueue } from '../store/queue.ts'
import { type QueueSetting, replaceSetting } from '../store/queue-setting.ts'
import { VERSION } from '../version.ts'
import { growQueues } from './assignment/growth.ts'
import { ServedQueues } from './assignment/served-queues.ts'
import type { UntoldLeaseOptions } from './membership/membership.ts'
import type { WorkerHome, WorkerSettings } from './options.ts'
import { ServedQueue } from './schedule/served-queue.ts'

/** What a worker reads from the database when it starts. */
export interface Readings {
  readonly served: ServedQueues
  /** ms; see `readLockTimeout`. */
  readonly lockTimeout: number
}

/**
 * Ensures that a worker can work with the database, and that its queues exist, with the shards they need.
 * @throws DatabaseError that says what to do
 */
export async function prepareDatabase(
  database: Database,
  queues: readonly Queue[],
  logger: Logger,
): Promise<Readings> {
  await requireMigrated(database, logger)
  await refuseDistributed((text, values) => database.query(text, values), database.schema)
  await requireRights(database, 'worker')
  await requireSequences(database)
  const served = await serveQueues(database, queues, logger)
  return { served, lockTimeout: await readLockTimeout(database) }
}

/** Creates missing queues, and grows those whose definitions name more shards. */
async function serveQueues(
  database: Database,
  queues: readonly Queue[],
  logger: Logger,
): Promise<ServedQueues> {
  const served: ServedQueue[] = []
  for (const [place, queue] of queues.entries()) {
    served.push(new ServedQueue(queue, await ensureQueue(database, queue.name, queue.shards), place))
  }
  await growQueues(database, served, logger)
  await publish(database, served, 'fairness', logger)
  // Those that are new are committed: claims that began before have been, or count from now on.
  for (const { queueId, queue } of await publish(database, served, 'limits', logger))
    if (queue.limits?.concurrency ?? queue.limits?.tenant?.concurrency) await noteHeld(database, queueId)
  return new ServedQueues(database, logger, served)
}

const CHANGED = {
  fairness: 'the queue has other rules for its tenants than before',
  limits: 'the queue has other limits than before',
}

/** Returns the queues that had something else. */
async function publish(
  database: Database,
  served: readonly ServedQueue[],
  setting: QueueSetting,
  logger: Logger,
): Promise<ServedQueue[]> {
  const definitions = served.map(({ queueId, queue }) => ({ queueId, value: queue[setting] }))
  const numbers = await replaceSetting(database, setting, definitions)
  const changed = served.filter(({ queueId }) => numbers.includes(queueId))
  for (const { queue } of changed)
    logger.info({ queue: queue.name, [setting]: queue[setting] }, CHANGED[setting])
  return changed
}

/** A wrong name would only make its queue wait longer than meant. But several workers may share a scheduler's settings. */
export function warnOfUnserved({ scheduler, queues }: WorkerSettings, logger: Logger): void {
  const served = queues.map(({ name }) => name)
  const unserved = (scheduler.namedQueues ?? []).filter((name) => !served.includes(name))
  if (unserved.length > 0)
    logger.warn({ unserved, served }, 'the scheduler names queues that this worker does not serve')
}

/** The data that the process registers with, and how it keeps its lease. */
export function leaseOptions(
  { slots, queues, lease, killOnLeaseEnd }: WorkerSettings,
  { directConfig, schema }: WorkerHome,
  told: Omit<UntoldLeaseOptions, 'config' | 'schema' | 'info' | 'lease' | 'killAtEnd'>,
): UntoldLeaseOptions {
  const names = queues.map(({ name }) => name)
  const info = { host: hostname(), pid: process.pid, version: VERSION, slots, queues: names }
  return { config: directConfig, schema, info, lease, killAtEnd: killOnLeaseEnd, ...told }
}
