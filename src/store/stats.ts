import type { Database } from '../postgres/database.ts'
import { dateOrNull, type InMs, msText } from './time.ts'

/** The state of a queue. `dead` counts payloads; `processed` and `failed` count rounds, `expired` payloads, since the queue was created. */
export interface QueueStats {
  readonly queue: string
  readonly shards: number
  /** Null if the queue is not paused. */
  readonly pausedAt: Date | null
  /** Jobs not in work, and next rounds of jobs in work, from pushes meanwhile. */
  readonly waiting: number
  /** Waiting ones that could start now, or as soon as their id is no longer in work. */
  readonly due: number
  /** Waiting ones that have never failed. */
  readonly fresh: number
  /** Waiting ones that have failed. */
  readonly retrying: number
  /** Jobs in work. */
  readonly working: number
  /** Payloads in the morgue. */
  readonly dead: number
  /** ms since the oldest due one became due; 0 if none is due. */
  readonly lag: number
  /** Rounds that succeeded, since the queue was created. Workers add theirs every few seconds. */
  readonly processed: number
  /** Rounds that failed, since the queue was created. Workers add theirs every few seconds. */
  readonly failed: number
  /** Payloads that expired before they could be handed over, or again, since the queue was created. Counted like rounds. */
  readonly expired: number
}

/** A row per queue, by name. */
export async function readQueueStats(database: Database): Promise<QueueStats[]> {
  const rows = await database.query<InMs<QueueStats, 'pausedAt'>>(
    `SELECT s.queue, s.shards, ${msText('s.paused_at')} AS "pausedAt", s.waiting, s.due, s.fresh, s.retrying, s.working, s.dead,
       (extract(epoch FROM s.lag) * 1000)::double precision AS lag, s.processed, s.failed, s.expired
     FROM ${database.prefix}.queue_stats s ORDER BY s.queue`,
  )
  return rows.map((row) => ({ ...row, pausedAt: dateOrNull(row.pausedAt) }))
}
