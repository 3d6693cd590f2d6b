import type { LookOptions } from '../admin/looks.ts'
import { resolveQueue } from '../admin/queues.ts'
import type { Lockstep } from '../lockstep.ts'
import { rejectUnknownOptions, wholeNumber } from '../options.ts'
import type { Queue } from '../queue.ts'
import { passTime } from './due.ts'
import { openSite } from './site.ts'

const A_CENTURY = 100 * 365 * 24 * 3_600_000

/**
 * Lets `ms` pass for the jobs of these queues: what was due later becomes due so much earlier. The server's clock stays as
 * it is, so the `performIn` of jobs moves.
 * @throws OptionError; LockstepError `LOCKSTEP_UNKNOWN_QUEUE`
 */
export async function advance(
  lockstep: Lockstep,
  queues: Queue | readonly Queue[],
  ms: number,
  options: LookOptions = {},
): Promise<void> {
  wholeNumber(ms, 0, A_CENTURY, 'advance: ms')
  rejectUnknownOptions(options, ['tx'], 'advance')
  const site = await openSite(lockstep, options)
  try {
    const queueIds: number[] = []
    for (const queue of Array.isArray(queues) ? queues : [queues])
      queueIds.push((await resolveQueue(site.database, queue)).queueId)
    await passTime(site.database, queueIds, ms)
  } finally {
    await site.end()
  }
}
