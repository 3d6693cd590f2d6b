import { inChunks, inLockOrder } from '../../enqueue/chunks.ts'
import { toCallersError } from '../../enqueue/refusal.ts'
import type { Queue } from '../../index.ts'
import type { Database, Queryable } from '../../postgres/database.ts'
import { hasCode } from '../../postgres/failure.ts'
import { CountingDatabase } from '../../store/counting.ts'
import { type PushedJob, push } from '../../store/push.ts'
import { ensureQueue, listQueues } from '../../store/queue.ts'
import { note, plural } from '../output.ts'
import { quote } from '../suggest.ts'
import type { Store } from './run.ts'

/** Pushes into a queue, and creates it with the first jobs if it is missing. `asked` is the value of --shards. */
export function storeIn({ pool, schema }: Database, queue: Queue, asked: number | undefined): Store {
  const database = new CountingDatabase(pool, schema)
  let ready: Promise<void> | undefined
  return async (jobs) => {
    ready ??= createMissing(database, queue, asked)
    await ready
    await database.transaction((through) => pushAll(database, queue.name, jobs, through))
    const added = database.take()
    return added === undefined ? undefined : jobs.length - added
  }
}

/** Bypasses `enqueue`, which would rewrite payloads, so that numbers keep their digits. */
async function pushAll(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
  through: Queryable,
): Promise<void> {
  for (const chunk of inChunks(inLockOrder(jobs))) {
    await push(database, queue, chunk, through).catch((error) => {
      throw toCallersError(error, queue, chunk, { jobs, placeOf: (index) => index })
    })
  }
}

async function createMissing(
  database: Database,
  { name, shards }: Queue,
  asked: number | undefined,
): Promise<void> {
  // A producer's role can create queues but not see them, so it can't tell whether the queue is new.
  const queues = await listQueues(database, [name]).catch((error) => {
    if (!hasCode(error, 'LOCKSTEP_PERMISSION')) throw error
  })
  const [found] = queues ?? []
  if (!found) {
    await ensureQueue(database, name, shards)
    if (queues) note(`queue ${quote(name)} is new: created with ${plural(shards, 'shard')}`)
  } else if (asked !== undefined && asked !== found.shards) {
    note(`queue ${quote(name)} keeps its ${plural(found.shards, 'shard')}: see \`lockstep reshard\``)
  }
}
