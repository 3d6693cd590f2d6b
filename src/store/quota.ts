import type { Database } from '../postgres/database.ts'

/** What a call has taken of the requests that a subject may make in a window of time. */
export interface Quota {
  readonly granted: number
  /** When the window began, in microseconds since 1970. */
  readonly window: number
  /** Seconds until it ends. */
  readonly endsIn: number
}

/** Takes up to `wanted` of the `most` requests in `per` seconds. The window begins with the first of them. */
export async function takeQuota(
  database: Database,
  subject: Buffer,
  { most, per }: { readonly most: number; readonly per: number },
  wanted: number,
): Promise<Quota> {
  const [row] = await database.query<Quota>(
    `SELECT granted, began AS "window", ends_in AS "endsIn" FROM ${database.prefix}.take_quota($1, $2, $3, $4)`,
    [subject, most, per, wanted],
  )
  return row!
}
