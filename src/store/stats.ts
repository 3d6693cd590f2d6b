import { sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import { run, tables } from './tables.ts'

/** How a queue stands. `dead` counts payloads; `processed` and `failed` rounds since the queue was made. */
export interface QueueStats {
  readonly queue: string
  readonly shards: number
  /** Null: it isn't paused. */
  readonly pausedAt: Date | null
  /** Jobs that nobody works on, and next rounds of jobs in work: what was pushed into them meanwhile. */
  readonly waiting: number
  /** Of the waiting ones, those that could start now, or as soon as their id is no longer in work. */
  readonly due: number
  /** Of the waiting ones, those that have never failed. */
  readonly fresh: number
  /** Of the waiting ones, those that have failed. */
  readonly retrying: number
  /** Jobs in work. */
  readonly working: number
  readonly dead: number
  /** ms since the oldest due one became due; 0 where none is. */
  readonly lag: number
  readonly processed: number
  readonly failed: number
}

/** A worker process. */
export interface ProcessRow {
  readonly processId: number
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly queues: string[]
  readonly slots: number
  readonly startedAt: Date
  /** By when it renews its lease, by the server's clock. */
  readonly expiresAt: Date
  /** It takes nothing new. */
  readonly quiet: boolean
  /** Jobs it has in work. */
  readonly working: number
  /**
   * It should have renewed its lease by now: it is dead or out of reach, or the server's clock was set. A running worker
   * removes it when it has been silent for a lease.
   */
  readonly overdue: boolean
}

/** A row per queue, by name. */
export function readQueueStats(database: Database): Promise<QueueStats[]> {
  const query = tables(database)
    .selectFrom('queue_stats as s')
    .select(['s.queue', 's.shards', 's.paused_at as pausedAt', 's.waiting', 's.due', 's.fresh', 's.retrying'])
    .select(['s.working', 's.dead', 's.processed', 's.failed'])
    .select(sql<number>`(extract(epoch from s.lag) * 1000)::double precision`.as('lag'))
    .orderBy('s.queue')
  return run(database, query)
}

/** A row per process, by its number. */
export function listProcesses(database: Database): Promise<ProcessRow[]> {
  const query = tables(database)
    .selectFrom('process_list as p')
    .select(['p.process_id as processId', 'p.host', 'p.pid', 'p.version', 'p.queues', 'p.slots'])
    .select(['p.started_at as startedAt', 'p.expires_at as expiresAt', 'p.quiet', 'p.working', 'p.overdue'])
    .orderBy('p.process_id')
  return run(database, query)
}
