import { setTimeout } from 'node:timers/promises'
import type { Lockstep } from '../../lockstep.ts'
import type { Logger } from '../../logger.ts'
import type { Worker } from '../../worker/worker.ts'

const FIRST_PAUSE = 200
/** Counting every job is dear where there are many: it may take a twentieth of the time at most. */
const PAUSE_PER_COUNT = 20

/** Resolves when nothing of the queues waits or is in work, wherever; or when `signal` is aborted. */
export async function drained(
  lockstep: Lockstep,
  worker: Worker,
  queues: readonly string[],
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  let pause = FIRST_PAUSE
  let warned = false
  while (!signal.aborted) {
    // While something runs here, there is no need to count.
    if (worker.report().length === 0) {
      const asked = performance.now()
      const left = await leftOver(lockstep, queues).catch(() => undefined)
      if (left?.jobs === 0) return
      if (left && left.paused.length > 0 && !warned) {
        logger.warn(
          { event: 'drain', queues: left.paused },
          'a paused queue is not drained until it is resumed',
        )
        warned = true
      }
      pause = Math.max(FIRST_PAUSE, (performance.now() - asked) * PAUSE_PER_COUNT)
    }
    await setTimeout(pause, undefined, { signal }).catch(() => {})
  }
}

async function leftOver(lockstep: Lockstep, names: readonly string[]) {
  const { queues } = await lockstep.stats()
  const ours = queues.filter(({ queue, waiting, working }) => names.includes(queue) && waiting + working > 0)
  const jobs = ours.reduce((sum, { waiting, working }) => sum + waiting + working, 0)
  return { jobs, paused: ours.filter(({ pausedAt }) => pausedAt !== null).map(({ queue }) => queue) }
}
