import type { Database } from '../postgres/database.ts'
import { type InMs, msText } from './time.ts'

/** The rounds of a queue that ended in a minute. */
export interface QueueMinute {
  /** Its beginning. */
  readonly minute: Date
  /** Rounds that succeeded. */
  readonly processed: number
  /** Rounds that failed. */
  readonly failed: number
  /** Payloads that expired before they could be handed over, or again. */
  readonly expired: number
}

/** A row for each minute of the last day in which rounds of the queue ended, the oldest first. */
export async function readMinutes(database: Database, queue: string): Promise<QueueMinute[]> {
  const rows = await database.query<InMs<QueueMinute, 'minute'>>(
    `SELECT ${msText('m.minute')} AS minute, m.processed, m.failed, m.expired FROM ${database.prefix}.queue_minutes m
     WHERE m.queue = $1 AND m.minute >= now() - interval '1 day' ORDER BY m.minute`,
    [queue],
  )
  return rows.map((row) => ({ ...row, minute: new Date(row.minute) }))
}

/** The minutes of the last hour, by queue, as above. */
export async function readLastHour(database: Database): Promise<Map<string, QueueMinute[]>> {
  const rows = await database.query<InMs<QueueMinute, 'minute'> & { queue: string }>(
    `SELECT m.queue, ${msText('m.minute')} AS minute, m.processed, m.failed, m.expired FROM ${database.prefix}.queue_minutes m
     WHERE m.minute >= now() - interval '1 hour' ORDER BY m.minute`,
  )
  const minutes = new Map<string, QueueMinute[]>()
  for (const { queue, minute, ...counts } of rows) {
    const those = minutes.get(queue) ?? []
    minutes.set(queue, those)
    those.push({ minute: new Date(minute), ...counts })
  }
  return minutes
}
