import type { Database, Queryable } from '../postgres/database.ts'
import type { Home } from './home.ts'
import { type Callable, callThrough, type Through } from './through.ts'

/** A job in the form that the store accepts: JSON text, numbers, and null for the defaults. */
export interface PushedJob {
  readonly id: string
  readonly payload: string
  readonly score: number | null
  readonly performIn: Date | null
  readonly lane: number | null
  /** JSON text. */
  readonly headers: string | null
  readonly tenant: string | null
  /** null: never. */
  readonly expiresIn: Date | null
}

/** What a job adds to a statement: its texts. */
export function charactersOf({ id, payload, headers, tenant }: PushedJob): number {
  return id.length + payload.length + (headers?.length ?? 0) + (tenant?.length ?? 0)
}

/** ms that a push waits for a row if it is not to wait for open transactions. */
export const SHORT_WAIT = 20

/** Pushes any number of jobs of a queue in one statement. `on` is our own transaction. */
export async function push(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
  on?: Queryable,
): Promise<void> {
  await database.run(functionFor(jobs), [queue, ...valuesOf(jobs)], on)
}

/**
 * Pushes in the caller's `on`. Unless that is in a transaction, in the database of `home`, stores nothing.
 * @throws DatabaseError `LOCKSTEP_BAD_TRANSACTION`
 */
export async function pushInTransaction(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
  on: Through,
  home: Home | undefined,
): Promise<void> {
  const values = [queue, ...valuesOf(jobs), ...placeOf(home)]
  await callThrough(database, on, jobs.length === 1 ? ONE_IN_TRANSACTION : MANY_IN_TRANSACTION, values)
}

/** As `push`, but waits only so many ms for each row, and then fails (55P03). The setting ends with the statement. */
export async function pushWithin(
  database: Database,
  longestWait: number,
  queue: string,
  jobs: readonly PushedJob[],
): Promise<void> {
  const values = [queue, ...valuesOf(jobs)]
  const places = values.map((_, index) => `$${index + 1}`)
  await database.alone(
    `SELECT ${database.prefix}.${functionFor(jobs)}(${places.join(', ')})
     FROM pg_catalog.set_config('lock_timeout', $${values.length + 1}, true)`,
    [...values, String(longestWait)],
    { boundsLocks: true },
  )
}

export const PLACE = ['uuid', 'text']
const ONE_IN_TRANSACTION: Callable = {
  kind: 'procedure',
  name: 'put_in_transaction',
  types: ['text', 'text', 'jsonb', 'float8', 'timestamptz', 'int4', 'jsonb', 'text', 'timestamptz', ...PLACE],
}
export const JOBS = [
  'text[]',
  'jsonb[]',
  'float8[]',
  'timestamptz[]',
  'int2[]',
  'jsonb[]',
  'text[]',
  'timestamptz[]',
]
const MANY_IN_TRANSACTION: Callable = {
  kind: 'procedure',
  name: 'put_many_in_transaction',
  types: ['text', ...JOBS, ...PLACE],
}

function functionFor(jobs: readonly PushedJob[]): string {
  return jobs.length === 1 ? 'enqueue' : 'enqueue_many'
}

/** The values of `PLACE`. */
export function placeOf(home: Home | undefined): (string | null)[] {
  return [home?.installation ?? null, home?.database ?? null]
}

function valuesOf(jobs: readonly PushedJob[]): unknown[] {
  return jobs.length === 1 ? fieldsOf(jobs[0]!) : arraysOf(jobs)
}

function fieldsOf({ id, payload, score, performIn, lane, headers, tenant, expiresIn }: PushedJob): unknown[] {
  return [id, payload, score, timeOf(performIn), lane, headers, tenant, timeOf(expiresIn)]
}

export function arraysOf(jobs: readonly PushedJob[]): unknown[] {
  return [
    jobs.map((job) => job.id),
    jobs.map((job) => job.payload),
    jobs.map((job) => job.score),
    jobs.map((job) => timeOf(job.performIn)),
    jobs.map((job) => job.lane),
    // Null as a whole if no job has any, as is usual.
    jobs.some(({ headers }) => headers !== null) ? jobs.map((job) => job.headers) : null,
    jobs.some(({ tenant }) => tenant !== null) ? jobs.map((job) => job.tenant) : null,
    jobs.some(({ expiresIn }) => expiresIn !== null) ? jobs.map((job) => timeOf(job.expiresIn)) : null,
  ]
}

function timeOf(time: Date | null): string | null {
  return time?.toISOString() ?? null
}
