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
export interface Waits extends Partial<Outcome> {
  /** Whether nothing of the lane can go before something of its limits changes. */
  readonly full: boolean
  /** The place behind the cursor up to which every job has been looked at, unless it is full. */
  readonly to: number | null
  readonly toId: string
  /** When the first job was due that could have gone, had its row not been locked. */
  readonly passed: number | null
  /** Empty if the limits could not be counted, since another session was counting them. */
  readonly limits: readonly Limiting[]
}

/** What came of the spots of a lane, if there were any. */
interface Outcome {
  /** Ids of jobs that were told as known, and that don't wait as told. */
  readonly gone: readonly string[]
  /** How many visits are done, from the first on. */
  readonly visited: number
  /** The jobs that were passed over: the place of their limit in `limits`, when they were due, and their ids. */
  readonly jobs: readonly (readonly [limit: number, performIn: number, id: string])[] | null
}

/** A job that a limit keeps waiting. */
export interface WaitingJob {
  /** Microseconds since 1970. */
  readonly performIn: number
  readonly id: string
}

/** What has its turn in a lane before what lies behind its cursor, each in the order in which it is due. */
export interface Spots {
  readonly known: readonly (WaitingJob & { readonly tenant: string })[]
  /** Jobs due at that very time, with this id or those that follow. */
  readonly visits: readonly WaitingJob[]
  /** What lies behind the cursor is read up to that time, in microseconds since 1970; undefined: to the end. */
  readonly upto?: number | undefined
}

export const NO_SPOTS: Spots = { known: [], visits: [] }

/** The spots of wishes as the functions take them; null if there are none to keep track of. */
export function spotsJson(spots: readonly (Spots | undefined)[]): string | null {
  if (spots.every((one) => one === undefined)) return null
  const told = spots.flatMap((one, index) =>
    one && isTold(one) ? [[index + 1, columnsOf(one)] as const] : [],
  )
  return JSON.stringify(Object.fromEntries(told))
}

/** Whether a claim has anything to go by but its cursor. */
export function isTold({ known, visits, upto }: Spots): boolean {
  return known.length + visits.length > 0 || upto !== undefined
}

function columnsOf({ known, visits, upto }: Spots): object {
  return {
    upto,
    known: known.map(({ performIn, id, tenant }) => [performIn, id, tenant]),
    visits: visits.map(({ performIn, id }) => [performIn, id]),
  }
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
