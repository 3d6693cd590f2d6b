import { toPushedJob } from '../enqueue/validation.ts'
import { JobError, OptionError } from '../errors.ts'
import type { NewJob, PayloadHeaders } from '../job.ts'
import { isPlain, nameOf, rejectUnknownOptions, show } from '../options.ts'
import { isMatcher } from './matching.ts'

/**
 * What to look for, in the forms that `enqueue` takes: each field that is given must match. Of objects, the named members
 * suffice.
 */
export interface Expected<Payload = unknown> {
  readonly id?: string | number | bigint
  readonly payload?: Part<Payload>
  readonly score?: number | Date
  readonly performIn?: Date
  readonly lane?: number
  readonly headers?: PayloadHeaders | null
  readonly tenant?: string | null
}

type Part<T> = unknown extends T
  ? unknown
  : T extends Date
    ? T
    : T extends readonly unknown[]
      ? { readonly [Index in keyof T]: Part<T[Index]> }
      : T extends object
        ? { readonly [Key in keyof T]?: Part<T[Key]> | undefined }
        : T

const FIELDS = ['id', 'payload', 'score', 'performIn', 'lane', 'headers', 'tenant']

/**
 * What is expected as it would be stored; matchers stay as they are. A mistake would match nothing, so that nothing seems to
 * be enqueued.
 * @throws OptionError
 */
export function storedForm(expected: object, what: string): Readonly<Record<string, unknown>> {
  rejectUnknownOptions(expected, FIELDS, `${what}: expected`)
  const forms = Object.entries(expected).map(([field, value]) => [
    field,
    isMatcher(value) ? value : formOf(field, value, `${what}: expected.${field}`),
  ])
  return Object.fromEntries(forms)
}

function formOf(field: string, value: unknown, what: string): unknown {
  if (value === undefined) throw new OptionError(`${what} is undefined: set it, or omit the key`)
  if (field === 'payload') return jsonOf(value, what)
  if (field === 'headers' && (value === null || isPlain(value))) return jsonOf(value, what)
  if (field === 'tenant' && value === null) return null
  if (value === null) throw new OptionError(`${what} must not be null: omit the key`)
  if (field === 'performIn' && !(value instanceof Date))
    throw new OptionError(`${what} must be a Date, as jobs have it, not ${show(value)}`)
  try {
    return toPushedJob({ id: 'any', [field]: value } as NewJob, 0)[field as keyof NewJob]
  } catch (error) {
    if (error instanceof JobError) throw new OptionError(`${what} ${error.problem}`)
    throw error
  }
}

/** What JSON makes of a value that has matchers in it. A member that is undefined must be missing, since JSON drops it. */
function jsonOf(value: unknown, what: string): unknown {
  if (isMatcher(value)) return value
  if (value === null || ['undefined', 'string', 'boolean'].includes(typeof value)) return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value !== 'object')
    throw new OptionError(
      `${what} is ${nameOf(value)}, which JSON does not have: pass plain data, or a matcher`,
    )
  if ('toJSON' in value && typeof value.toJSON === 'function') return jsonOf(value.toJSON(), what)
  if (Array.isArray(value)) return value.map((one, index) => jsonOf(one, `${what}[${index}]`) ?? null)
  const members = Object.entries(value)
  if (members.length === 0 && !isPlain(value))
    throw new OptionError(`${what} is ${nameOf(value)}, which JSON has as {}: pass plain data, or a matcher`)
  return Object.fromEntries(members.map(([key, one]) => [key, jsonOf(one, `${what}.${key}`)]))
}
