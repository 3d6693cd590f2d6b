import type { Database, Queryable } from '../postgres/database.ts'

/** A job as the store takes it: JSON text, numbers, and null for the defaults. */
export interface PushedJob {
  readonly id: string
  readonly payload: string
  readonly score: number | null
  readonly performIn: Date | null
  readonly lane: number
}

/** One statement for any number of jobs of a queue, in the caller's transaction where `on` is one. */
export async function push(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
  on?: Queryable,
): Promise<void> {
  const columns = [
    jobs.map((job) => job.id),
    jobs.map((job) => job.payload),
    jobs.map((job) => job.score),
    jobs.map((job) => job.performIn?.toISOString() ?? null),
    jobs.map((job) => job.lane),
  ]
  await database.query(database.callText('enqueue_many', 6), [queue, ...columns], on)
}
