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

/** ms that a joint push waits for a row before its pushes are sent separately. */
const LONGEST_WAIT = 20

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

/** Fails instead of waiting for an open transaction. The setting ends with the statement. */
export async function pushTogether(
  database: Database,
  queue: string,
  jobs: readonly PushedJob[],
): Promise<void> {
  await database.prepared(
    `SELECT ${database.prefix}.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8, $9)
     FROM pg_catalog.set_config('lock_timeout', '${LONGEST_WAIT}', true)`,
    [queue, ...arraysOf(jobs)],
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
