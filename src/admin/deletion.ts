import { LockstepError } from '../errors.ts'
import { show } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import { SHORT_LOCKS, withLocks } from '../postgres/patience.ts'
import type { Queue } from '../queue.ts'
import {
  deleteQueueRow,
  forgetQueue,
  holdsMoreThan,
  lockQueues,
  type NamedQueue,
  type QueueContents,
  readContents,
} from '../store/queue-contents.ts'
import { notify, REBALANCE } from '../store/wake.ts'
import { removeDeadProcesses } from './dead-processes.ts'
import { act } from './jobs.ts'
import { deleteFromMorgue } from './morgue.ts'
import type { Progress, Progression } from './progression.ts'
import { resolveQueue } from './queues.ts'
import type { ChunkSettings } from './walk.ts'

/** ms */
const GIVE_UP_AFTER = 30_000
const MAX_NAMED = 5

/** The steps of deleting a queue. */
export async function* deletion(
  database: Database,
  queue: Queue | string,
  settings: ChunkSettings,
  withJobs: boolean,
): AsyncGenerator<Progress, void> {
  settings.signal?.throwIfAborted()
  const target = await resolveQueue(database, queue)
  await removeDeadProcesses(database, target.name, settings.signal)
  const contents = await readContents(database, target)
  refuse(target, contents, withJobs)
  const total = contents.waiting + contents.dead
  yield { done: 0, total }
  if (withJobs) yield* deleteFull(database, target, settings, total)
  else await deleteRow(database, target, 0)
  // The queue is gone, whatever becomes of this.
  await forgetQueue(database, target.queueId, settings.signal).catch(() => {})
  // Consumers may wait for its jobs. They see it ten seconds later anyway.
  await notify(database, REBALANCE).catch(() => {})
}

/** Also deletes what is pushed meanwhile: once few jobs are left, deletes them all at once while no one can push. */
async function* deleteFull(
  database: Database,
  target: NamedQueue,
  settings: ChunkSettings,
  total: number,
): AsyncGenerator<Progress, void> {
  const told = (done: number): Progress => ({ done, total: Math.max(done, total) })
  let done = 0
  let rest = await deleteRow(database, target, settings.chunk)
  while (rest === undefined) {
    for (const part of partsOf(database, target, settings)) {
      const before = done
      for await (const step of part) {
        done = before + step.done
        yield told(done)
      }
    }
    settings.signal?.throwIfAborted()
    rest = await deleteRow(database, target, settings.chunk)
  }
  if (rest > 0) yield told(done + rest)
}

function partsOf(database: Database, { name }: NamedQueue, settings: ChunkSettings): Progression[] {
  return [act('delete_jobs', database, name, {}, settings), deleteFromMorgue(database, name, {}, settings)]
}

/**
 * Deletes the queue with up to `most` jobs and dead payloads, and returns how many there were, including from pushes it
 * waited for. If there are more, does nothing and returns undefined.
 */
async function deleteRow(database: Database, target: NamedQueue, most: number): Promise<number | undefined> {
  const client = await database.connect()
  const what = `deleting queue ${show(target.name)}`
  try {
    return await withLocks(
      client,
      { schema: database.schema, what, giveUpAfter: GIVE_UP_AFTER },
      async () => {
        await client.query(SHORT_LOCKS)
        await lockQueues(database, client)
        // Counting all of them would take long, while everyone waits.
        if (most > 0 && (await holdsMoreThan(database, target, most, client))) return undefined
        const contents = await readContents(database, target, client)
        refuse(target, contents, most > 0)
        await deleteQueueRow(database, target.queueId, client)
        return contents.waiting + contents.dead
      },
    )
  } finally {
    database.release(client)
  }
}

function refuse({ name }: NamedQueue, contents: QueueContents, withJobs: boolean): void {
  const { waiting, working, dead, servedBy } = contents
  if (working > 0 || servedBy.length > 0) {
    const more = servedBy.length > MAX_NAMED ? ' …' : ''
    const who = servedBy.length > 0 ? ` (${servedBy.slice(0, MAX_NAMED).join(', ')}${more})` : ''
    throw new LockstepError(
      'LOCKSTEP_QUEUE_IN_USE',
      `queue ${show(name)} is in use: jobs in work: ${working}, processes that serve it: ${servedBy.length}${who}; stop those first (a killed process counts until it has been silent for its lease)`,
    )
  }
  if (withJobs || waiting + dead === 0) return
  throw new LockstepError(
    'LOCKSTEP_QUEUE_NOT_EMPTY',
    `queue ${show(name)} is not empty: it has ${waiting} waiting jobs and ${dead} dead payloads; process or delete them first, or delete them with the queue (\`withJobs\`, on the command line --with-jobs)`,
  )
}
