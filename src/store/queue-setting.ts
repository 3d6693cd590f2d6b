import type { Database } from '../postgres/database.ts'

/** What the row of a queue has of its definition: a column, which a function sets. */
export type QueueSetting = 'fairness' | 'limits'

export interface SettingOfQueue {
  readonly queueId: number
  /** Undefined: none. */
  readonly value: object | undefined
}

/** Gives queues what their definitions say, in one call. Returns the numbers of those that had something else. */
export async function replaceSetting(
  database: Database,
  setting: QueueSetting,
  definitions: readonly SettingOfQueue[],
): Promise<number[]> {
  const rows = await database.query<{ queueId: number }>(
    // In one order, so that two workers that start at once can't deadlock.
    `SELECT d.queue_id AS "queueId"
     FROM (SELECT * FROM unnest($1::integer[], $2::jsonb[]) AS d(queue_id, value) ORDER BY 1 OFFSET 0) d
     WHERE ${database.prefix}.set_${setting}(d.queue_id, d.value)`,
    [
      definitions.map(({ queueId }) => queueId),
      definitions.map(({ value }) => (value ? JSON.stringify(value) : null)),
    ],
  )
  return rows.map(({ queueId }) => queueId)
}
