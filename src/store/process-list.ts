import type { Database } from '../postgres/database.ts'
import type { ProcessRequest } from './process.ts'
import type { OwnedShards, SlotInWork } from './process-report.ts'
import { dateOrNull, type InMs, msText } from './time.ts'

/** A worker process. */
export interface ProcessRow {
  /** Its number in the database; it gets another one when it registers again. */
  readonly processId: number
  readonly host: string
  /** The operating system's number, on its host. */
  readonly pid: number
  /** Of the package. */
  readonly version: string
  /** The names of the queues that it serves. */
  readonly queues: string[]
  readonly slots: number
  /** When it registered, by the server's clock. */
  readonly startedAt: Date
  /** The time by which it should renew its lease, by the server's clock. */
  readonly expiresAt: Date
  /** It takes no new jobs. */
  readonly quiet: boolean
  /** The number of its jobs in work. */
  readonly working: number
  /**
   * It should have renewed its lease by now: it is dead or unreachable, or the server's clock was changed. A running worker
   * removes it when it has been silent for a lease.
   */
  readonly overdue: boolean
  /** What `quiet` or `stop` has asked of it. It stays until the process is gone; null if nothing was asked. */
  readonly request: ProcessRequest | null
  /**
   * When it last said what follows, by the server's clock: with a renewal of its lease, four times a lease. If that was
   * longer ago, its event loop is blocked, or it is dead. Null before its first report, and in an older release.
   */
  readonly reportedAt: Date | null
  /** ms: the longest delay of its event loop in the five to ten seconds before. */
  readonly eventLoopDelay: number | null
  /** Bytes that it had in memory. */
  readonly memory: number | null
  /** The shards that it owned. */
  readonly shards: readonly OwnedShards[]
  /** What its slots were doing, the longest first; those that there is room for in 8 KiB. */
  readonly doing: readonly SlotInWork[]
}

/** A row per process, by number. */
export async function listProcesses(database: Database): Promise<ProcessRow[]> {
  const rows = await database.query<InMs<ProcessRow, 'startedAt' | 'expiresAt' | 'reportedAt'>>(
    `SELECT p.process_id AS "processId", p.host, p.pid, p.version, p.queues, p.slots,
       ${msText('p.started_at')} AS "startedAt", ${msText('p.expires_at')} AS "expiresAt", p.quiet, p.working, p.overdue,
       p.request, ${msText('p.reported_at')} AS "reportedAt", p.event_loop_delay AS "eventLoopDelay", p.memory,
       coalesce(p.shards, '[]') AS shards, coalesce(p.doing, '[]') AS doing
     FROM ${database.prefix}.process_list p ORDER BY p.process_id`,
  )
  return rows.map((row) => ({
    ...row,
    startedAt: new Date(row.startedAt),
    expiresAt: new Date(row.expiresAt),
    reportedAt: dateOrNull(row.reportedAt),
    shards: row.shards.map((one) => ({ ...one, policy: one.policy ?? null })),
    doing: row.doing.map((one) => ({ ...one, since: new Date(one.since) })),
  }))
}
