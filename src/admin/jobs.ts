import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import { type FoundJob, findJobs, type JobFilter, type JobSort } from '../store/jobs.ts'
import type { Found, Page } from '../store/page.ts'
import { actOnWaiting, countWaiting, type JobAction, lockWaiting } from '../store/waiting.ts'
import { checkJobFilter, fullPage, PAGE_KEYS } from './filter.ts'
import { Progression } from './progression.ts'
import { resolveQueue } from './queues.ts'
import { chunkSettings, type ProgressionOptions, walk } from './walk.ts'

const SORTS: readonly JobSort[] = ['id', 'performIn', 'retryCount']

/** A page of the jobs that match, waiting or in work. By `performIn` by default. */
export async function find(
  database: Database,
  queue: Queue | string,
  filter: JobFilter & Page<JobSort>,
): Promise<Found<FoundJob>> {
  checkJobFilter(filter, 'find', PAGE_KEYS)
  const page = fullPage(filter, SORTS, 'performIn', 'find')
  const { queueId } = await resolveQueue(database, queue)
  return findJobs(database, queueId, filter, page)
}

const NAMES: Readonly<Record<JobAction, string>> = {
  perform_now: 'performNow',
  delete_jobs: 'delete',
  kill: 'kill',
}

/** Does `action` to the waiting jobs that match. What is in work is not touched. */
export function act(
  action: JobAction,
  database: Database,
  queue: Queue | string,
  filter: JobFilter,
  options: ProgressionOptions,
): Progression {
  checkJobFilter(filter, NAMES[action])
  const settings = chunkSettings(options, NAMES[action])
  return new Progression(
    (async function* () {
      const { queueId } = await resolveQueue(database, queue)
      yield* walk<string, string>(
        database,
        {
          count: () => countWaiting(database, queueId, filter),
          async step(tx, after, last, limit) {
            const seen = await lockWaiting(database, tx, queueId, filter, { after, last, limit })
            return { seen, done: await actOnWaiting(database, tx, action, queueId, seen) }
          },
        },
        settings,
      )
    })(),
  )
}
