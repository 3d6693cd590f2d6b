import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import type { DeadFilter, DeadKey, DeadPayload, DeadSort } from '../store/morgue.ts'
import type { Found, Page } from '../store/page.ts'
import { checkDeadFilter, requireValues } from './filter.ts'
import { deadPage } from './pages.ts'
import { Progression } from './progression.ts'
import { resolveQueue } from './queues.ts'
import { chunkSettings, type ProgressionOptions, type Walk, walk } from './walk.ts'

type Store = typeof import('../store/morgue.ts')

/** Loads the store only on demand: it needs Kysely, which producers and workers do not load. */
const loadStore = (): Promise<Store> => import('../store/morgue.ts')

/** A page of the matching dead payloads. Sorted by `diedAt` by default. */
export async function findInMorgue(
  database: Database,
  queue: Queue | string,
  filter: DeadFilter & Page<DeadSort>,
  withAttempts: boolean,
): Promise<Found<DeadPayload>> {
  const page = deadPage(filter)
  const [{ queueId }, { findDead }] = await Promise.all([resolveQueue(database, queue), loadStore()])
  return findDead(database, queueId, filter, page, withAttempts)
}

/** Moves matching payloads back to their jobs (R5). */
export function requeueFromMorgue(
  database: Database,
  queue: Queue | string,
  filter: DeadFilter,
  options: ProgressionOptions,
): Progression {
  return walkMorgue('requeue', database, queue, filter, options, (store, queueId) => ({
    count: () => store.countDead(database, queueId, filter),
    list: (after, lastId, limit) => store.listDead(database, queueId, filter, { after, lastId, limit }),
    // Doesn't lock them first: a death locks the job first, and so must we.
    act: (tx, keys) => store.requeueDead(database, tx, queueId, keys),
  }))
}

/** Deletes matching payloads, for good. */
export function deleteFromMorgue(
  database: Database,
  queue: Queue | string,
  filter: DeadFilter,
  options: ProgressionOptions,
): Progression {
  return walkMorgue('deleteDead', database, queue, filter, options, (store, queueId) => ({
    count: () => store.countDead(database, queueId, filter),
    list: (after, lastId, limit) => store.listDead(database, queueId, filter, { after, lastId, limit }),
    async act(tx, keys) {
      const locked = await store.lockDead(database, tx, queueId, filter, keys)
      await store.deleteDead(database, tx, queueId, locked)
      return locked.length
    },
  }))
}

function walkMorgue(
  name: string,
  database: Database,
  queue: Queue | string,
  filter: DeadFilter,
  options: ProgressionOptions,
  walkOf: (store: Store, queueId: number) => Walk<DeadKey>,
): Progression {
  checkDeadFilter(filter, name)
  requireValues(filter, name)
  const settings = chunkSettings(options, name)
  return new Progression(
    (async function* () {
      const { queueId } = await resolveQueue(database, queue)
      yield* walk(database, walkOf(await loadStore(), queueId), settings)
    })(),
  )
}
