import { setTimeout } from 'node:timers/promises'
import type { Lockstep, Logger, Worker } from '../../index.ts'

const PAUSE = 200

/** Resolves when no job of the queues waits or is in work, in any process. */
export async function drained(
  lockstep: Lockstep,
  worker: Worker,
  queues: readonly string[],
  logger: Logger,
): Promise<void> {
  await warnOfPaused(lockstep, queues, logger)
  // While this process has jobs in work, there is no need to ask the database.
  while (worker.report().length > 0 || !(await areEmpty(lockstep, queues))) await setTimeout(PAUSE)
}

/** Looks for one job of each queue: counting all jobs, as stats do, would take long if other queues are full. */
async function areEmpty(lockstep: Lockstep, queues: readonly string[]): Promise<boolean> {
  for (const queue of queues) {
    const found = await lockstep.find(queue, { by: 'id', limit: 1 }).catch(() => undefined)
    if (found?.items.length !== 0) return false
  }
  return true
}

async function warnOfPaused(lockstep: Lockstep, names: readonly string[], logger: Logger): Promise<void> {
  const stats = await lockstep.stats().catch(() => undefined)
  const paused = stats?.queues.filter(({ queue, pausedAt }) => pausedAt && names.includes(queue)) ?? []
  if (paused.length === 0) return
  const queues = paused.map(({ queue }) => queue)
  logger.warn({ event: 'drain', queues }, 'a paused queue drains only after it is resumed')
}
