import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../postgres/database.ts'
import { lookAtProcesses, removeSilent } from '../store/process.ts'
import { Silence } from '../store/silence.ts'

/** ms. */
const LONGEST_WAIT = 30_000
const LOOK_PAUSE = 500

/**
 * Removes dead processes that served a queue, so that their jobs in work wait again. Running workers do this; this is for
 * when no worker runs. By the server's clock a process only seems dead; a whole lease of silence proves it. So this takes
 * that long if any process seems dead. Leaves alone processes whose lease is longer than 30 s.
 */
export async function removeDeadProcesses(
  database: Database,
  queue: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const silence = new Silence()
  const until = performance.now() + LONGEST_WAIT + LOOK_PAUSE
  while (performance.now() < until) {
    const sights = await lookAtProcesses(database)
    const now = performance.now()
    const seemDead = sights.filter(
      ({ overdue, lease, queues }) => overdue && lease <= LONGEST_WAIT && queues.includes(queue),
    )
    if (seemDead.length === 0) return
    silence.note(seemDead, now)
    const over = silence.over(now)
    if (over.length > 0) await removeSilent(database, over)
    if (over.length === seemDead.length) return
    signal?.throwIfAborted()
    await sleep(Math.min(silence.next(now), LOOK_PAUSE), undefined, { signal }).catch(() =>
      signal?.throwIfAborted(),
    )
  }
}
