import { setTimeout } from 'node:timers/promises'
import { closest, distance } from 'fastest-levenshtein'
import { LockstepError, OptionError } from '../errors.ts'
import { show, wholeNumber } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import { isQueue, MAX_SHARDS, type Queue } from '../queue.ts'
import { storable } from '../store/encoding.ts'
import { countStrays, listQueues, type QueueRow, rehome, setPaused, setShards } from '../store/queue.ts'
import { notify, REBALANCE } from '../store/wake.ts'
import { type Progress, Progression } from './progression.ts'
import { type ChunkSettings, chunkSettings, type ProgressionOptions } from './walk.ts'

/** ms between tries to get locked rows, doubled from the first to the last. */
const [FIRST_PAUSE, LAST_PAUSE] = [20, 1_000]

/**
 * Finds the row of a queue by its definition or name.
 * @throws LockstepError `LOCKSTEP_UNKNOWN_QUEUE` with the nearest name; OptionError for anything else
 */
export async function resolveQueue(database: Database, queue: Queue | string): Promise<QueueRow> {
  const name = nameOf(queue)
  const row = await findQueue(database, name)
  if (row) return row
  const names = (await listQueues(database)).map((one) => one.name)
  throw new LockstepError(
    'LOCKSTEP_UNKNOWN_QUEUE',
    `queue ${show(name)} does not exist: ${hint(name, names)}`,
  )
}

/** There may be many: each queue of a gateway's clients is one. A name that may not be sent is looked for among all. */
async function findQueue(database: Database, name: string): Promise<QueueRow | undefined> {
  const rows = await listQueues(database, (await canBeSent(database, name)) ? [name] : undefined)
  return rows.find((row) => row.name === name)
}

/** Text that the database can't hold would end the caller's transaction. */
async function canBeSent(database: Database, name: string): Promise<boolean> {
  const [held] = await storable(database, [name])
  return held === name && name.isWellFormed() && !name.includes('\0')
}

/** From now on, workers start no job of the queue. Running jobs go on, and pushes are accepted. */
export async function pause(database: Database, queue: Queue | string): Promise<void> {
  const { queueId } = await resolveQueue(database, queue)
  await setPaused(database, queueId, true)
  await notify(database, REBALANCE)
}

export async function resume(database: Database, queue: Queue | string): Promise<void> {
  const { queueId } = await resolveQueue(database, queue)
  await setPaused(database, queueId, false)
  await notify(database, REBALANCE)
}

/** Changes the number of shards of a queue, and moves jobs out of removed shards. */
export function reshard(
  database: Database,
  queue: Queue | string,
  shards: number,
  options: ProgressionOptions,
): Progression {
  wholeNumber(shards, 1, MAX_SHARDS, 'reshard: shards')
  const settings = chunkSettings(options, 'reshard')
  return new Progression(
    (async function* () {
      settings.signal?.throwIfAborted()
      const { queueId } = await resolveQueue(database, queue)
      await setShards(database, queueId, shards)
      await notify(database, REBALANCE)
      yield* moveStrays(database, queueId, settings)
    })(),
  )
}

/** Workers move strays too, so this counts the rest again when it finds fewer to move than a chunk. */
async function* moveStrays(
  database: Database,
  queueId: number,
  { chunk, signal }: ChunkSettings,
): AsyncGenerator<Progress, void> {
  let left = await countStrays(database, queueId)
  const total = left
  let pause = FIRST_PAUSE
  yield { done: 0, total }
  while (left > 0) {
    signal?.throwIfAborted()
    const moved = await rehome(database, queueId, chunk)
    left = moved === chunk ? Math.max(left - moved, 1) : await countStrays(database, queueId)
    yield { done: Math.max(total - left, 0), total: Math.max(total, left) }
    if (left === 0) return
    pause = moved > 0 ? FIRST_PAUSE : Math.min(pause * 2, LAST_PAUSE)
    // Only rows held by producers' open transactions are left, and those may stay open for any time.
    if (moved === 0) await setTimeout(pause, undefined, { signal }).catch(() => {})
  }
}

function nameOf(queue: Queue | string): string {
  if (typeof queue === 'string') return queue
  if (isQueue(queue)) return queue.name
  throw new OptionError(`a queue must be the result of defineQueue(), or a name, not ${show(queue)}`)
}

const MAX_NAMES = 10

function hint(name: string, names: readonly string[]): string {
  if (names.length === 0)
    return 'there is no queue yet; the first worker, or push from TypeScript, creates it'
  const nearest = closest(name, names)
  if (distance(name, nearest) <= Math.max(2, name.length / 3)) return `did you mean "${nearest}"?`
  const more = names.length > MAX_NAMES ? ' …' : ''
  return `the queues are ${names.slice(0, MAX_NAMES).join(', ')}${more}`
}
