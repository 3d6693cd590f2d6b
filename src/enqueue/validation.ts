import { JobError } from '../errors.ts'
import { MAX_LANE, type NewJob } from '../job.ts'
import { JsonText, numberBeyondJsonb } from '../json-text.ts'
import { isPlain, nameOf, show } from '../options.ts'
import type { PushedJob } from '../store/push.ts'

const MAX_ID_BYTES = 1_024
const MAX_TENANT_BYTES = 1_024
const MAX_PAYLOAD_BYTES = 8 * 1_024 * 1_024
/** Between these, JavaScript and Postgres write dates in the same way. */
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z')
const LATEST = Date.parse('9999-12-31T23:59:59.999Z')
export const MAX_HEADERS_BYTES = 16 * 1_024
const FIELDS = ['id', 'payload', 'score', 'performIn', 'lane', 'headers', 'tenant', 'expiresIn']

/** A `\u0000` or an unpaired surrogate as JSON.stringify writes it; jsonb can't hold either. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(0000|d[89a-f][0-9a-f]{2})/

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
    payload: checkPayload(job.payload ?? (job.payload === null ? null : ''), index),
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
  if (id.includes('\u0000') || !id.isWellFormed()) throw bad('must be well-formed text without \\u0000')
  return id
}

function checkPayload(payload: unknown, index: number): string {
  const json = toJson(payload, index, 'payload')
  // As it was written: JavaScript would change digits, and drop one of two payloads that differ (R2).
  const text = payload instanceof JsonText ? payload.text : json
  requireSize(text, index)
  if (text !== json) requireNumbers(text, index)
  requireStorable(json, index, 'payload')
  return text
}

/** @throws JobError for a number that the server would refuse without naming the job */
function requireNumbers(json: string, index: number): void {
  const number = numberBeyondJsonb(json)
  if (number === undefined) return
  const shown = number.length > 40 ? `${number.slice(0, 39)}…` : number
  throw new JobError(
    index,
    'payload',
    `has the number ${shown}, which Postgres’ jsonb can’t hold: quote it, to make it text`,
  )
}

function checkHeaders(headers: unknown, index: number): string | null {
  if (headers === undefined || headers === null) return null
  const bad = (problem: string) => new JobError(index, 'headers', problem)
  const json = toJson(headers, index, 'headers')
  // Not shown: headers may hold secrets. A Map or the like would be stored as {}.
  if (!json.startsWith('{') || (json === '{}' && !isPlain(headers)))
    throw bad(`must be a plain object, not ${typeof headers === 'string' ? 'a string' : nameOf(headers)}`)
  const bytes = Buffer.byteLength(json)
  if (bytes > MAX_HEADERS_BYTES)
    throw bad(`must be at most 16 KiB, not ${bytes} bytes: put large data into the payload`)
  return requireStorable(json, index, 'headers')
}

function toJson(value: unknown, index: number, field: string): string {
  const bad = (problem: string) => new JobError(index, field, problem)
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (error) {
    if (/call stack/.test(reasonOf(error)))
      throw bad('can’t be written as JSON: it nests too deeply, so flatten it')
    throw bad(`can’t be written as JSON (${reasonOf(error)}): turn it into plain data first`)
  }
  if (json === undefined) throw bad(`can’t be written as JSON: it is ${show(value)}`)
  return json
}

/** A toJSON or getter of the job may throw anything. */
function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.message}`.split('\n')[0]! : `it threw ${nameOf(thrown)}`
}

function requireStorable(json: string, index: number, field: string): string {
  const [, code] = UNSTORABLE.exec(json) ?? []
  if (!code) return json
  throw new JobError(
    index,
    field,
    `contains \\u${code}, which Postgres’ jsonb can’t hold: remove or encode it`,
  )
}

/** @throws JobError if the JSON text is too long */
function requireSize(json: string, index: number): void {
  const bytes = Buffer.byteLength(json)
  if (bytes <= MAX_PAYLOAD_BYTES) return
  throw new JobError(
    index,
    'payload',
    `must be at most 8 MiB, not ${bytes} bytes: store large data elsewhere and push a reference to it`,
  )
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
      `must not be before performIn: ${date.toISOString()} is before ${performIn.toISOString()}`,
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
