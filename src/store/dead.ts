import type { Database, Queryable } from '../postgres/database.ts'
import { DEAD_KEY, type DeadFilter, matchingDead } from './morgue.ts'
import { beyond, orderOf } from './page.ts'
import { run } from './tables.ts'

/** How many payloads match, and the last id of their jobs: a walk that ends there ends. */
export async function countDead(
  database: Database,
  queueId: number,
  filter: DeadFilter,
): Promise<{ total: number; last: string | null }> {
  const query = matchingDead(database, queueId, filter).select(({ fn }) => [
    fn.countAll<number>().as('total'),
    fn.max<string | null>('m.job_id').as('last'),
  ])
  const [row] = await run(database, query)
  return row!
}

/** Names a dead payload of a queue. */
export interface DeadKey {
  readonly id: string
  readonly digest: Buffer
}

/** A part of the morgue of a queue, by id and digest. */
export interface DeadSpan {
  /** Undefined: from the first. */
  readonly after: DeadKey | undefined
  readonly lastId: string
  readonly limit: number
}

/** The next payloads that match; `lock` also locks them, in their order. */
export function listDead(
  database: Database,
  tx: Queryable,
  queueId: number,
  filter: DeadFilter,
  { after, lastId, limit }: DeadSpan,
  lock: boolean,
): Promise<DeadKey[]> {
  let query = matchingDead(database, queueId, filter)
    .where('m.job_id', '<=', lastId)
    .select(['m.job_id as id', 'm.digest'])
    .orderBy(orderOf(DEAD_KEY, 'asc'))
    .limit(limit)
  if (after) query = query.where(beyond(DEAD_KEY, [after.id, after.digest.toString('hex')], 'asc'))
  return run(database, lock ? query.forUpdate('m') : query, tx)
}

/** Moves payloads back to their jobs (R5), and returns how many: some may be gone by now. */
export async function requeueDead(
  database: Database,
  tx: Queryable,
  queueId: number,
  keys: readonly DeadKey[],
): Promise<number> {
  const [row] = await database.call<{ requeue: number }>('requeue', [queueId, ...columnsOf(keys)], tx)
  return row!.requeue
}

/** Deletes payloads the caller has locked. */
export async function deleteDead(
  database: Database,
  tx: Queryable,
  queueId: number,
  keys: readonly DeadKey[],
): Promise<void> {
  await database.query(
    `DELETE FROM ${database.prefix}.morgue m
     USING (SELECT $1::integer AS queue_id, t.* FROM unnest($2::text[], $3::bytea[]) AS t(id, digest) OFFSET 0) d
     WHERE m.queue_id = d.queue_id AND m.job_id = d.id AND m.digest = d.digest`,
    [queueId, ...columnsOf(keys)],
    tx,
  )
}

function columnsOf(keys: readonly DeadKey[]): [string[], Buffer[]] {
  return [keys.map(({ id }) => id), keys.map(({ digest }) => digest)]
}
