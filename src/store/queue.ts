import type { Database } from '../postgres/database.ts'
import { type Callable, callThrough, type Through } from './through.ts'

/** A queue's row. `strays`: it has jobs in shards that no longer exist. */
export interface QueueRow {
  readonly queueId: number
  readonly name: string
  readonly shards: number
  readonly paused: boolean
  readonly strays: boolean
}

/** Creates the queue if it is missing; an existing queue keeps its shards. */
export async function ensureQueue(database: Database, name: string, shards: number): Promise<number> {
  const [row] = await database.call<{ create_queue: number }>('create_queue', [name, shards])
  return row!.create_queue
}

const REQUIRE_TRANSACTION: Callable = { kind: 'procedure', name: 'require_transaction', types: [] }
const CREATE_QUEUE: Callable = { kind: 'value', name: 'create_queue', types: ['text', 'int4'] }

/**
 * Creates the queue in a caller's transaction; does nothing if `on` is in none.
 * @throws DatabaseError `LOCKSTEP_BAD_TRANSACTION`
 */
export async function ensureQueueIn(
  database: Database,
  name: string,
  shards: number,
  on: Through,
): Promise<void> {
  await callThrough(database, on, REQUIRE_TRANSACTION, [])
  await callThrough(database, on, CREATE_QUEUE, [name, shards])
}

/** The queues with the names $1, or all, as QueueRow. The inner ORDER BY makes the search for strays one index probe. */
export function queuesText(prefix: string): string {
  return `SELECT q.queue_id AS "queueId", q.name, q.shards, q.paused_at IS NOT NULL AS paused,
      (SELECT true FROM ${prefix}.jobs j WHERE j.queue_id = q.queue_id AND j.shard >= q.shards
       ORDER BY j.queue_id, j.shard LIMIT 1) IS TRUE AS strays
    FROM ${prefix}.queues q WHERE $1::text[] IS NULL OR q.name = ANY ($1)`
}

/** The queues with these names, or all, by number. */
export function listQueues(database: Database, names?: readonly string[]): Promise<QueueRow[]> {
  return database.query<QueueRow>(`${queuesText(database.prefix)} ORDER BY q.queue_id`, [names ?? null])
}

/** Pauses or resumes a queue. Affects all claims from now on. */
export async function setPaused(database: Database, queueId: number, paused: boolean): Promise<void> {
  await database.query(
    `UPDATE ${database.prefix}.queues SET paused_at = CASE WHEN $2 THEN coalesce(paused_at, clock_timestamp()) END
     WHERE queue_id = $1`,
    [queueId, paused],
  )
}

export async function setShards(database: Database, queueId: number, shards: number): Promise<void> {
  await database.query(`UPDATE ${database.prefix}.queues SET shards = $2 WHERE queue_id = $1`, [
    queueId,
    shards,
  ])
}

/** Raises the queue to `shards`. False if it has as many already, or is a different queue by now. */
export async function growQueue(database: Database, queueId: number, shards: number): Promise<boolean> {
  const [row] = await database.call<{ grow_queue: boolean }>('grow_queue', [queueId, shards])
  return row!.grow_queue
}

/** Moves up to `limit` jobs out of removed shards, and returns how many. */
export async function rehome(database: Database, queueId: number, limit: number): Promise<number> {
  const [row] = await database.call<{ rehome: number }>('rehome', [queueId, limit])
  return row!.rehome
}

/** The number of jobs in removed shards. */
export async function countStrays(database: Database, queueId: number): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    `SELECT count(*) FROM ${database.prefix}.jobs j JOIN ${database.prefix}.queues q USING (queue_id)
     WHERE j.queue_id = $1 AND j.shard >= q.shards`,
    [queueId],
  )
  return row!.count
}
