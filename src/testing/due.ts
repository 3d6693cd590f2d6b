import type { Database } from '../postgres/database.ts'

/** A shard and lane in which jobs are due. */
export interface DueLane {
  readonly queueId: number
  readonly shard: number
  readonly lane: number
}

/** Where jobs of these queues are due that nobody has in work, the longest due first. Excludes paused queues. */
export function dueLanes(database: Database, queueIds: readonly number[]): Promise<DueLane[]> {
  return database.query<DueLane>(
    `SELECT j.queue_id AS "queueId", j.shard, j.lane
     FROM ${database.prefix}.jobs j JOIN ${database.prefix}.queues q ON q.queue_id = j.queue_id
     WHERE j.queue_id = ANY ($1) AND q.paused_at IS NULL AND j.claimed_by IS NULL AND j.perform_in <= clock_timestamp()
     GROUP BY j.queue_id, j.shard, j.lane ORDER BY min(j.perform_in), min(j.id COLLATE "C")`,
    [queueIds],
  )
}

/** Makes waiting jobs due now. */
export async function makeDue(database: Database, queueId: number, ids: readonly string[]): Promise<void> {
  await database.query(
    `UPDATE ${database.prefix}.jobs SET perform_in = clock_timestamp()
     WHERE queue_id = $1 AND id = ANY ($2) AND claimed_by IS NULL`,
    [queueId, ids],
  )
}

/** ms until the next job is due that waits; undefined if none waits. */
export async function untilNext(
  database: Database,
  queueIds: readonly number[],
): Promise<number | undefined> {
  const [row] = await database.query<{ ms: number | null }>(
    `SELECT extract(epoch FROM min(j.perform_in) - clock_timestamp())::float8 * 1000 AS ms
     FROM ${database.prefix}.jobs j JOIN ${database.prefix}.queues q ON q.queue_id = j.queue_id
     WHERE j.queue_id = ANY ($1) AND q.paused_at IS NULL AND j.claimed_by IS NULL`,
    [queueIds],
  )
  return row!.ms ?? undefined
}

/** Makes the jobs of these queues, and of rounds to come, due so many ms earlier, and expire so much earlier; and what counts for tenants so much older. */
export async function passTime(database: Database, queueIds: readonly number[], ms: number): Promise<void> {
  await database.query(
    `UPDATE ${database.prefix}.jobs SET
       perform_in = perform_in - $2 * interval '1 ms', next_perform_in = next_perform_in - $2 * interval '1 ms'
     WHERE queue_id = ANY ($1)`,
    [queueIds, ms],
  )
  for (const table of ['jobs', 'payloads'])
    await database.query(
      `UPDATE ${database.prefix}.${table} SET expires_in = expires_in - $2 * interval '1 ms'
       WHERE queue_id = ANY ($1) AND expires_in IS NOT NULL`,
      [queueIds, ms],
    )
  await growOlder(database, queueIds, ms)
}

/** Makes what tenants have pushed, and what began within the window of a rate, so many ms older. */
export async function growOlder(database: Database, queueIds: readonly number[], ms: number): Promise<void> {
  await database.query(
    `UPDATE ${database.prefix}.starts SET at = at - $2 * interval '1 ms' WHERE queue_id = ANY ($1)`,
    [queueIds, ms],
  )
  await database.query(
    `UPDATE ${database.prefix}.tenant_pushes SET pushed_at = pushed_at - $2 * interval '1 ms' WHERE queue_id = ANY ($1)`,
    [queueIds, ms],
  )
}
