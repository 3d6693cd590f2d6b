import type { Queryable } from '../postgres/database.ts'
import { quoteIdentifier } from '../postgres/schema-name.ts'
import { renewalText } from './process.ts'

/**
 * The options of a queue's definition that are not the defaults, by name. `true` stands for what is no number: a function, a
 * schema.
 */
export type ReportedPolicy = Readonly<Record<string, number | true>>

/** The shards of a queue that a process owns. */
export interface OwnedShards {
  readonly queue: string
  readonly count: number
  /** The first of them, in order: those that there is room for. */
  readonly shards: readonly number[]
  /** How the process defines the queue; null in an older release. */
  readonly policy: ReportedPolicy | null
}

/** What a slot is doing. */
export interface SlotInWork {
  readonly slot: number
  readonly queue: string
  readonly shard: number
  /** How many jobs its batch has. */
  readonly jobs: number
  /** The first of their ids, each cut to 100 characters. */
  readonly ids: readonly string[]
  /** When the batch began, by the clock of the process. */
  readonly since: Date
}

/** What a process says of itself, to be stored with a renewal of its lease. */
export interface ProcessReport {
  /** ms: the longest delay of its event loop in the last seconds. */
  readonly eventLoopDelay: number
  /** Bytes that it has in memory. */
  readonly memory: number
  readonly shards: readonly OwnedShards[]
  readonly doing: readonly SlotInWork[]
}

/**
 * Renews leases as `renewLeases` does, and stores the report, in one statement. It locks the process before its report, as
 * remove_silent does. If others have removed the process, nothing is stored.
 */
export async function renewAndReport(
  on: Queryable,
  schema: string,
  processIds: readonly number[],
  lease: number,
  { eventLoopDelay, memory, shards, doing }: ProcessReport,
): Promise<number[]> {
  const prefix = quoteIdentifier(schema)
  const { rows } = await on.query(
    `WITH renewed AS (${renewalText(prefix)}), reported AS (
       INSERT INTO ${prefix}.process_reports AS r (process_id, reported_at, event_loop_delay, memory, shards, doing)
       SELECT n.process_id, clock_timestamp(), $3::double precision, $4::bigint, $5::json, $6::json FROM renewed n
       ON CONFLICT (process_id) DO UPDATE SET (reported_at, event_loop_delay, memory, shards, doing)
         = (excluded.reported_at, excluded.event_loop_delay, excluded.memory, excluded.shards, excluded.doing)
     )
     SELECT process_id FROM renewed`,
    [processIds, lease, eventLoopDelay, memory, asciiJson(shards), asciiJson(doing)],
  )
  return rows.map((row) => (row as { process_id: number }).process_id)
}

/** Fits every encoding of a database: what can't be stored would keep the lease from being renewed. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
