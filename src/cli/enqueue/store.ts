import { Enqueuer } from '../../enqueue/enqueue.ts'
import type { Database } from '../../postgres/database.ts'
import { hasCode } from '../../postgres/failure.ts'
import type { Queue } from '../../queue.ts'
import { CountingDatabase } from '../../store/counting.ts'
import { ensureQueue, listQueues } from '../../store/queue.ts'
import { note, plural } from '../output.ts'
import { quote } from '../suggest.ts'
import type { Store } from './run.ts'

/** Pushes into a queue, which it creates with the first jobs where it is missing. `asked` is what --shards says. */
export function storeIn({ pool, schema }: Database, queue: Queue, asked: number | undefined): Store {
  const database = new CountingDatabase(pool, schema)
  const enqueuer = new Enqueuer(database, [])
  let ready: Promise<void> | undefined
  return async (jobs) => {
    ready ??= createMissing(database, queue, asked)
    await ready
    await enqueuer.enqueue(queue, jobs, {})
    const added = database.take()
    return added === undefined ? undefined : jobs.length - added
  }
}

async function createMissing(
  database: Database,
  { name, shards }: Queue,
  asked: number | undefined,
): Promise<void> {
  // A producer's role may create queues without seeing any: then nobody knows whether it is new.
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
