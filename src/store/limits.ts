import type { Database } from '../postgres/database.ts'

/**
 * A limit that keeps jobs of a lane waiting: of a tenant, or of the queue if that is null. Times are in microseconds since 1970.
 */
export interface Limiting {
  readonly tenant: string | null
  /** null if it depends on when rounds end. */
  readonly until: number | null
  /** When the first job was due that it keeps waiting. */
  readonly from: number
  /** The place before that job; null: the beginning. */
  readonly after: number | null
  readonly afterId: string
}

/** What a claim has passed over in a lane because of limits. Times are in microseconds since 1970. */
export interface Waits {
  /** Whether nothing of the lane can go before something of its limits changes. */
  readonly full: boolean
  /** The place up to which every job has been looked at, unless it is full. */
  readonly to: number
  readonly toId: string
  /** When the first job was due that could have gone, had its row not been locked. */
  readonly passed: number | null
  /** Empty if the limits could not be counted, since another session was counting them. */
  readonly limits: readonly Limiting[]
}

/** Deletes a bounded part of what no longer counts for limits, and returns how many rows that were. */
export async function trimLimits(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_limits: number }>('trim_limits', [])
  return row!.trim_limits
}

/** Notes what is held of a queue that has got its first limit of concurrency, once that is committed. Reads all its jobs. */
export async function noteHeld(database: Database, queueId: number): Promise<void> {
  await database.run('note_held', [queueId])
}
