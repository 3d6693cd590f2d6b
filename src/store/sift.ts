import type { Database } from '../postgres/database.ts'
import type { Cursor, LaneKey } from './claim.ts'
import type { WaitingJob } from './limits.ts'

/** A part of a lane whose jobs limits keep waiting, as far as is known. */
export interface Sifting {
  readonly key: LaneKey
  readonly from: Cursor
  readonly to: Cursor
  /** By tenant: the place before its first job that waits, which are known of these, and behind which place they are not. */
  readonly held: ReadonlyMap<string, Held>
}

interface Held {
  readonly start: Cursor
  readonly jobs: readonly WaitingJob[]
  readonly rest: Cursor | undefined
}

export interface Sifted {
  /** Jobs that no limit is known to keep waiting. */
  readonly found: readonly WaitingJob[]
  /** Where to go on; undefined if all was looked at. */
  readonly to: Cursor | undefined
}

interface SiftRow {
  readonly place: number
  readonly is_news: boolean
  readonly is_last: boolean
  readonly perform_in: number
  readonly id: string
}

/** Looks at the next `most` jobs of each of these parts, for what was committed late among them. */
export async function sift(
  database: Database,
  processId: number,
  parts: readonly Sifting[],
  most: number,
): Promise<Sifted[]> {
  const rows = await database.call<SiftRow>('sift', [
    processId,
    parts.map(({ key }) => key.queueId),
    parts.map(({ key }) => key.shard),
    parts.map(({ key }) => key.lane),
    parts.map(({ from }) => from.after),
    parts.map(({ from }) => from.afterId),
    parts.map(({ to }) => to.after),
    parts.map(({ to }) => to.afterId),
    parts.map(({ held }) =>
      JSON.stringify({ ...Object.fromEntries(Array.from(held, placesOf)), '': idsIn(held) }),
    ),
    most,
  ])
  return parts.map((_, index) => {
    const mine = rows.filter(({ place }) => place === index + 1)
    const last = mine.find((row) => row.is_last)
    return {
      found: mine.filter((row) => row.is_news).map((row) => ({ performIn: row.perform_in, id: row.id })),
      to: last && { after: last.perform_in, afterId: last.id },
    }
  })
}

function placesOf([tenant, { start, rest }]: readonly [string, Held]): [string, unknown] {
  return [tenant, [start.after, start.afterId, ...(rest ? [rest.after, rest.afterId] : [])]]
}

function idsIn(held: Sifting['held']): object {
  return Object.fromEntries(
    Array.from(held.values(), ({ jobs }) => jobs.map(({ id }) => [id, 1] as const)).flat(),
  )
}
