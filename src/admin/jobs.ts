import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import type { FoundJob, JobAction, JobFilter, JobSort } from '../store/jobs.ts'
import type { Found, Page } from '../store/page.ts'
import { checkJobFilter, requireValues } from './filter.ts'
import { jobPage } from './pages.ts'
import { Progression } from './progression.ts'
import { resolveQueue } from './queues.ts'
import { chunkSettings, type ProgressionOptions, walk } from './walk.ts'

/** Loads the store only on demand: it needs Kysely, which producers and workers do not load. */
const loadStore = () => import('../store/jobs.ts')

/** A page of the matching entries, waiting or in work. Defaults: sorted by `performIn`; with `ids`, all of them. */
export async function find(
  database: Database,
  queue: Queue | string,
  filter: JobFilter & Page<JobSort>,
  withAttempts: boolean,
): Promise<Found<FoundJob>> {
  const page = jobPage(filter)
  const [{ queueId }, { findJobs }] = await Promise.all([resolveQueue(database, queue), loadStore()])
  return findJobs(database, queueId, filter, page, withAttempts)
}

export const NAMES = {
  perform_now: 'performNow',
  delete_jobs: 'delete',
  kill: 'kill',
} as const satisfies Record<JobAction, string>

/** Applies `action` to waiting jobs that match. Leaves jobs in work alone. */
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
      const { actOnWaiting, countWaiting, listWaiting, lockWaiting } = await loadStore()
      settings.signal?.throwIfAborted()
      // Jobs that a dead process had in work are due already.
      if (action !== 'perform_now') {
        const { removeDeadProcesses } = await import('./dead-processes.ts')
        await removeDeadProcesses(database, name, settings.signal)
      }
      yield* walk<string>(
        database,
        {
          count: () => countWaiting(database, queueId, filter),
          list: (after, last, limit) => listWaiting(database, queueId, filter, { after, last, limit }),
          async act(tx, ids) {
            const entries = await lockWaiting(database, tx, queueId, filter, ids)
            return actOnWaiting(database, tx, action, queueId, entries)
          },
        },
        settings,
      )
    })(),
  )
}
