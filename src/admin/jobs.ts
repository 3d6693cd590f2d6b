import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import type { FoundJob, JobAction, JobFilter, JobSort } from '../store/jobs.ts'
import type { Found, Page } from '../store/page.ts'
import { removeDeadProcesses } from './dead-processes.ts'
import { checkJobFilter, fullPage, PAGE_KEYS, requireValues } from './filter.ts'
import { Progression } from './progression.ts'
import { resolveQueue } from './queues.ts'
import { chunkSettings, type ProgressionOptions, walk } from './walk.ts'

/** At most: one in work, and one that waits. */
const ENTRIES_OF_AN_ID = 2
const SORTS: readonly JobSort[] = ['id', 'performIn', 'retryCount']

/** When it is needed: it loads Kysely, which producers and workers do without. */
const loadStore = () => import('../store/jobs.ts')

/** A page of the entries that match, waiting or in work. By `performIn` by default; of `ids` all by default. */
export async function find(
  database: Database,
  queue: Queue | string,
  filter: JobFilter & Page<JobSort>,
): Promise<Found<FoundJob>> {
  checkJobFilter(filter, 'find', PAGE_KEYS)
  const page = fullPage(
    filter,
    SORTS,
    'performIn',
    'find',
    filter.ids && filter.ids.length * ENTRIES_OF_AN_ID,
  )
  const [{ queueId }, { findJobs }] = await Promise.all([resolveQueue(database, queue), loadStore()])
  return findJobs(database, queueId, filter, page)
}

const NAMES: Readonly<Record<JobAction, string>> = {
  perform_now: 'performNow',
  delete_jobs: 'delete',
  kill: 'kill',
}

/** Does `action` to what waits and matches. What is in work is not touched. */
export function act(
  action: JobAction,
  database: Database,
  queue: Queue | string,
  filter: JobFilter,
  options: ProgressionOptions,
): Progression {
  checkJobFilter(filter, NAMES[action])
  requireValues(filter, NAMES[action])
  const settings = chunkSettings(options, NAMES[action])
  return new Progression(
    (async function* () {
      const { queueId, name } = await resolveQueue(database, queue)
      const { actOnWaiting, countWaiting, lockWaiting } = await loadStore()
      settings.signal?.throwIfAborted()
      // What a dead process had in work is due already.
      if (action !== 'perform_now') await removeDeadProcesses(database, name, settings.signal)
      yield* walk<string, string>(
        database,
        {
          count: () => countWaiting(database, queueId, filter),
          async step(tx, after, last, limit) {
            const { seen, entries } = await lockWaiting(database, tx, queueId, filter, { after, last, limit })
            return { seen, done: await actOnWaiting(database, tx, action, queueId, entries) }
          },
        },
        settings,
      )
    })(),
  )
}
