import type { Database, Queryable } from '../postgres/database.ts'

/** A job as the store takes it: JSON text, numbers, and null for the defaults. */
export interface PushedJob {
  readonly id: string
  readonly payload: string
  readonly score: number | null
  readonly performIn: Date | null
  readonly lane: number
}

/** ms that pushes which go together wait for a row, before each goes alone. */
const LONGEST_WAIT = 20

/** One statement for any number of jobs of a queue, in the caller's transaction where `on` is one. */
export async function push(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
  on?: Queryable,
): Promise<void> {
  const [name, values] =
    jobs.length === 1
      ? ['enqueue', [queue, ...fieldsOf(jobs[0]!)]]
      : ['enqueue_many', [queue, ...arraysOf(jobs)]]
  await database.run(name, values, on)
}

/** Fails rather than wait for somebody's open transaction. The setting ends with the statement. */
export async function pushTogether(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
): Promise<void> {
  await database.prepared(
    `SELECT ${database.prefix}.enqueue_many($1, $2, $3, $4, $5, $6)
     FROM pg_catalog.set_config('lock_timeout', '${LONGEST_WAIT}', true)`,
    [queue, ...arraysOf(jobs)],
  )
}

function fieldsOf({ id, payload, score, performIn, lane }: PushedJob): unknown[] {
  return [id, payload, score, performIn?.toISOString() ?? null, lane]
}

function arraysOf(jobs: readonly PushedJob[]): unknown[][] {
  return [
    jobs.map((job) => job.id),
    jobs.map((job) => job.payload),
    jobs.map((job) => job.score),
    jobs.map((job) => job.performIn?.toISOString() ?? null),
    jobs.map((job) => job.lane),
  ]
}
