import { JobError } from '../errors.ts'
import { MAX_LANE, type NewJob } from '../job.ts'
import { isPlain, isStorable, nameOf, STORABLE_TEXT, show } from '../options.ts'
import { requireStorable, storableJson, toJson } from '../storable-json.ts'
import type { PushedJob } from '../store/push.ts'

const MAX_ID_BYTES = 1_024
const MAX_TENANT_BYTES = 1_024
/** MiB */
const MAX_PAYLOAD = 8
/** Between these, JavaScript and Postgres write dates in the same way. */
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z')
const LATEST = Date.parse('9999-12-31T23:59:59.999Z')
export const MAX_HEADERS_BYTES = 16 * 1_024
const FIELDS = ['id', 'payload', 'score', 'performIn', 'lane', 'headers', 'tenant', 'expiresIn']

/** @throws JobError if `job` is not an object */
export function requireObject(job: NewJob, index: number): void {
  if (typeof job !== 'object' || job === null)
    throw new JobError(index, 'id', `is missing: a job must be an object, not ${show(job)}`)
}

/** @throws JobError naming a field that can't be stored */
export function toPushedJob(job: NewJob, index: number): PushedJob {
  requireObject(job, index)
  for (const field of Object.keys(job)) {
    if (!FIELDS.includes(field))
      throw new JobError(index, field, `is unknown: the fields of a job are ${FIELDS.join(', ')}`)
  }
  const performIn = checkTime(job.performIn, index, 'performIn')
  return {
    id: checkId(job.id, index),
    payload: checkPayload(job.payload, index),
    score: checkScore(job.score, index),
    performIn,
    lane: checkLane(job.lane, index),
    headers: checkHeaders(job.headers, index),
    tenant: checkTenant(job.tenant, index),
    expiresIn: checkExpiresIn(job.expiresIn, performIn, index),
  }
}

function checkId(id: unknown, index: number): string {
  const bad = (problem: string) => new JobError(index, 'id', problem)
  if (id === undefined || id === null || id === '') throw bad('is required and must not be empty')
  if (typeof id === 'bigint') return checkId(String(id), index)
  if (typeof id === 'number' && Number.isFinite(id)) {
    // Beyond that, JavaScript reads different numbers as the same one, so two ids would become one.
    if (Math.abs(id) > Number.MAX_SAFE_INTEGER)
      throw bad(`must be text, or a number that JavaScript represents exactly, not ${id}: pass it as text`)
    return String(id)
  }
  if (typeof id !== 'string') throw bad(`must be text or a finite number, not ${show(id)}`)
  const bytes = Buffer.byteLength(id)
  if (bytes > MAX_ID_BYTES)
    throw bad(`must be at most 1,024 bytes, not ${bytes}: push a shorter key or a hash`)
  if (!isStorable(id)) throw bad(`must be ${STORABLE_TEXT}`)
  return id
}

function checkPayload(payload: unknown, index: number): string {
  const bad = (problem: string) => new JobError(index, 'payload', problem)
  return storableJson(payload === undefined ? '' : payload, MAX_PAYLOAD, bad)
}

function checkHeaders(headers: unknown, index: number): string | null {
  if (headers === undefined || headers === null) return null
  const bad = (problem: string) => new JobError(index, 'headers', problem)
  const json = toJson(headers, bad)
  // Not shown: headers may hold secrets. A Map or the like would be stored as {}.
  if (!json.startsWith('{') || (json === '{}' && !isPlain(headers)))
    throw bad(`must be a plain object, not ${typeof headers === 'string' ? 'a string' : nameOf(headers)}`)
  const bytes = Buffer.byteLength(json)
  if (bytes > MAX_HEADERS_BYTES)
    throw bad(`must be at most 16 KiB, not ${bytes} bytes: put large data into the payload`)
  return requireStorable(json, bad)
}

function checkScore(score: unknown, index: number): number | null {
  if (score === undefined || score === null) return null
  const value = score instanceof Date ? score.getTime() : score
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw new JobError(index, 'score', `must be a finite number or a valid Date, not ${show(value)}`)
}

/** One that has passed already is accepted: the payload expires at once. */
function checkExpiresIn(expiresIn: unknown, performIn: Date | null, index: number): Date | null {
  const date = checkTime(expiresIn, index, 'expiresIn')
  if (date && performIn && date < performIn)
    throw new JobError(
      index,
      'expiresIn',
      `must not be before \`performIn\`: ${date.toISOString()} is before ${performIn.toISOString()}`,
    )
  return date
}

function checkTime(time: unknown, index: number, field: string): Date | null {
  if (time === undefined || time === null) return null
  const bad = (problem: string) => new JobError(index, field, problem)
  const date = typeof time === 'number' ? new Date(time) : time
  if (!(date instanceof Date) || Number.isNaN(date.getTime()))
    throw bad(`must be a valid Date or ms since 1970, not ${show(time)}`)
  if (date.getTime() < EARLIEST || date.getTime() > LATEST)
    throw bad(`must be in the years 1 to 9999, not ${date.toISOString()}`)
  return date
}

function checkLane(lane: unknown, index: number): number | null {
  if (lane === undefined || lane === null) return null
  if (typeof lane === 'number' && Number.isInteger(lane) && lane >= 0 && lane <= MAX_LANE) return lane
  throw new JobError(index, 'lane', `must be a whole number from 0 to ${MAX_LANE}, not ${show(lane)}`)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: those are looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/

/** An empty one is none. */
function checkTenant(tenant: unknown, index: number): string | null {
  if (tenant === undefined || tenant === null || tenant === '') return null
  const bad = (problem: string) => new JobError(index, 'tenant', problem)
  if (typeof tenant !== 'string') throw bad(`must be text, not ${show(tenant)}`)
  const bytes = Buffer.byteLength(tenant)
  if (bytes > MAX_TENANT_BYTES)
    throw bad(`must be at most 1,024 bytes, not ${bytes}: pass a shorter key or a hash`)
  if (CONTROL.test(tenant) || !tenant.isWellFormed())
    throw bad('must be well-formed text without control characters')
  return tenant
}
