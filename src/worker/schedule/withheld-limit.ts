import type { Spots } from '../../store/limits.ts'
import type { KnownJobs } from './known-jobs.ts'
import { inOrder } from './places.ts'

/** Tenants that one claim tries, and jobs of theirs that it is told; of each, some at least. */
const [MOST_TRIED, MOST_TOLD, LEAST_TOLD] = [30, 300, 10]

/** What one limit keeps waiting in a lane. Times are in microseconds since 1970. */
export interface Withheld {
  /** When the first job was due that was seen to wait. */
  from: number
  /** When it is tried again. */
  at: number
  /** Until when it waits at least, if its limit stays the same; null: no one knows. */
  until: number | null
  /** Of a tenant. What the queue's own limits keep waiting lies behind the cursor. */
  readonly known: KnownJobs
}

/** A limit: of a tenant, or of the queue (null). */
export type LimitEntry = readonly [tenant: string | null, withheld: Withheld]

/** Those that the next claim tries: the longest that have waited, and that of the queue. */
export function triedOf(held: Iterable<LimitEntry>, now: number): LimitEntry[] {
  const due = [...held].filter(([, { at }]) => at <= now).sort(([, a], [, b]) => fromOf(a) - fromOf(b))
  return due.filter(([tenant], index) => tenant === null || index < MOST_TRIED)
}

/** When the first of it was due. */
export function fromOf({ from, known }: Withheld): number {
  return known.jobs[0]?.performIn ?? from
}

/** The first jobs of each, all in order. */
export function toldOf(tried: readonly LimitEntry[]): Spots['known'] {
  const each = Math.max(LEAST_TOLD, Math.floor(MOST_TOLD / Math.max(1, tried.length)))
  const told = tried.flatMap(([tenant, { known }]) =>
    tenant === null ? [] : known.jobs.slice(0, each).map((job) => ({ ...job, tenant })),
  )
  return told.sort(inOrder)
}
