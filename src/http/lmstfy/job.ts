import type { JobInWork, NewJob } from '../../job.ts'
import type { Attributes } from './attributes.ts'
import { newJobId, timeOf } from './job-id.ts'
import type { Publishing } from './parameters.ts'

/** The header in which a job says how often it may be handed over. */
export const TRIES_HEADER = 'tries'

/** What a job of lmstfy's has beside its body: the headers of its payload. */
export interface JobHeaders {
  readonly tries: number
  /** When it expires, in ms since 1970; 0: never. */
  readonly expires: number
  readonly attributes?: Attributes
}

/** A job with its one payload, as a claim or a look finds it. */
export interface StoredJob {
  readonly id: string
  readonly retryCount: number
  readonly payload: unknown
  readonly headers: Readonly<Record<string, unknown>> | null
}

/** How a job is told in an answer. */
export interface ShownJob {
  readonly namespace: string
  readonly queue: string
  readonly job_id: string
  /** In base64. */
  readonly data: string | null
  /** Seconds left; 0: for ever. */
  readonly ttl: number
  readonly elapsed_ms: number
  readonly remain_tries: number
  readonly attributes: Attributes | null
}

/**
 * New jobs of ours with ids of their own, whose payloads are the bodies in base64. Their ids ascend: jobs that are pushed
 * together are due in the order of their ids.
 */
export function newJobs(
  bodies: readonly Buffer[],
  { ttl, delay, tries }: Publishing,
  attributes: Attributes | undefined,
): NewJob<string>[] {
  const now = Date.now()
  const expires = ttl > 0 ? now + ttl * 1000 : 0
  const headers: JobHeaders = { tries, expires, ...(attributes && { attributes }) }
  const ids = bodies.map(() => newJobId(now, attributes !== undefined)).sort()
  return bodies.map((body, index) => ({
    id: ids[index]!,
    payload: body.toString('base64'),
    headers: { ...headers },
    ...(delay > 0 && { performIn: now + delay * 1000 }),
    ...(expires > 0 && { expiresIn: expires }),
  }))
}

/** `deliveries`: how often it has been handed over. */
export function shownJob(
  namespace: string,
  queue: string,
  { id, payload, headers }: StoredJob,
  deliveries: number,
): ShownJob {
  const now = Date.now()
  const { tries, expires, attributes } = headersOf(headers)
  return {
    namespace,
    queue,
    job_id: id,
    data: isOver(expires, now) ? null : dataOf(payload, headers),
    ttl: expires > 0 ? Math.max(Math.round((expires - now) / 1000), 0) : 0,
    elapsed_ms: Math.max(now - (timeOf(id) ?? now), 0),
    remain_tries: Math.max(tries - deliveries, 0),
    attributes: attributes ?? null,
  }
}

/** Whether a job that is still there will never be handed over. */
export function hasExpired(headers: StoredJob['headers'], now: number): boolean {
  return isOver(headersOf(headers).expires, now)
}

function isOver(expires: number, now: number): boolean {
  return expires > 0 && expires <= now
}

/** How often a claimed job has been handed over, this time included. */
export function deliveriesOf(retryCount: number): number {
  return retryCount + 2
}

/**
 * Whether lmstfy's timer would have brought this delivery: the job was delayed, or its ttr was over. A delay has whole seconds, and
 * is added to the time in the id; where a job is due at another time, that is the database's clock, or the job has come back.
 */
export function wasOnTimer({
  id,
  retryCount,
  performIn,
}: Pick<JobInWork, 'id' | 'retryCount' | 'performIn'>): boolean {
  if (retryCount >= 0) return true
  const delay = performIn.getTime() - (timeOf(id) ?? Number.NaN)
  return delay > 0 && delay % 1000 === 0
}

/** Jobs that came another way, by SQL for instance, have one try and live for ever. */
function headersOf(headers: StoredJob['headers']): JobHeaders {
  const { tries, expires, attributes } = headers ?? {}
  return {
    tries: typeof tries === 'number' ? tries : 1,
    expires: typeof expires === 'number' ? expires : 0,
    ...(typeof attributes === 'object' && attributes && { attributes: attributes as Attributes }),
  }
}

/** What came another way is shown as its JSON text. */
function dataOf(payload: unknown, headers: StoredJob['headers']): string {
  if (typeof payload === 'string' && headers?.tries !== undefined) return payload
  return Buffer.from(JSON.stringify(payload) ?? '').toString('base64')
}
