import type { Database, Queryable } from '../postgres/database.ts'

/** Everything that can prevent the deletion of a queue. */
export interface QueueContents {
  /** Jobs that no live process has in work, including those of dead processes. */
  readonly waiting: number
  readonly working: number
  /** Payloads in the morgue. */
  readonly dead: number
  /** Live processes that serve it, as `host pid`. */
  readonly servedBy: readonly string[]
}

export interface NamedQueue {
  readonly queueId: number
  readonly name: string
}

export async function readContents(
  database: Database,
  { queueId, name }: NamedQueue,
  on?: Queryable,
): Promise<QueueContents> {
  const { prefix } = database
  const [row] = await database.query<Omit<QueueContents, 'waiting'> & { jobs: number }>(
    `SELECT (SELECT count(*) FROM ${prefix}.jobs j WHERE j.queue_id = $1) AS jobs,
       (SELECT count(*) FROM ${prefix}.working w WHERE w.queue = $2) AS working,
       (SELECT count(*) FROM ${prefix}.morgue m WHERE m.queue_id = $1) AS dead,
       ARRAY(SELECT p.host || ' ' || p.pid FROM ${prefix}.process_list p WHERE $2 = ANY (p.queues)
             ORDER BY p.process_id) AS "servedBy"`,
    [queueId, name],
    on,
  )
  const { jobs, ...rest } = row!
  return { ...rest, waiting: jobs - rest.working }
}

/** Whether the queue has more than `most` jobs and dead payloads. */
export async function holdsMoreThan(
  database: Database,
  { queueId }: NamedQueue,
  most: number,
  on: Queryable,
): Promise<boolean> {
  const some = (table: string) =>
    `SELECT count(*) FROM (SELECT FROM ${database.prefix}.${table} t WHERE t.queue_id = $1 LIMIT $2 + 1) t`
  const [row] = await database.query<{ more: boolean }>(
    `SELECT (${some('jobs')}) + (${some('morgue')}) > $2 AS more`,
    [queueId, most],
    on,
  )
  return row!.more
}

/**
 * After this, no transaction that has seen the queue can still push into it. Every push reads the queue's row, and so holds
 * a lock on the table until its transaction ends. This lock waits for all of those, and makes others wait. Without it, a
 * push could commit jobs of a deleted queue. One case remains: a transaction at REPEATABLE READ that began before the
 * deletion and first pushes after it still sees the row.
 */
export async function lockQueues(database: Database, on: Queryable): Promise<void> {
  await database.query(`LOCK TABLE ${database.prefix}.queues IN ACCESS EXCLUSIVE MODE`, [], on)
}

/** Deletes the row of a queue, and the rows with its number that nothing else would delete, or that are few. */
export async function deleteQueueRow(database: Database, queueId: number, on: Queryable): Promise<void> {
  for (const table of [
    'payloads',
    'jobs',
    'morgue',
    'counters',
    'minute_counters',
    'holds',
    'starts',
    'turns',
    'queues',
  ])
    await database.query(`DELETE FROM ${database.prefix}.${table} WHERE queue_id = $1`, [queueId], on)
}

/** Rows of each table that one statement deletes. */
const MOST_FORGOTTEN = 10_000

/** Deletes what a deleted queue has left in other tables, as far as nobody has locked it. Maintenance deletes the rest some day. */
export async function forgetQueue(
  database: Database,
  queueId: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  let forgotten = 1
  while (forgotten > 0 && !signal?.aborted) {
    const [row] = await database.call<{ forget_queues: number }>('forget_queues', [[queueId], MOST_FORGOTTEN])
    forgotten = row!.forget_queues
  }
}
