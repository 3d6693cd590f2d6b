import { OptionError } from './errors.ts'
import { nameOf } from './options.ts'

/**
 * A schema of zod, valibot, arktype, or any other library that implements Standard Schema 1 (https://standardschema.dev).
 * `Input` is what it accepts, `Output` what it makes of that.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    validate(value: unknown): Validated<Output> | PromiseLike<Validated<Output>>
    /** Only types. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] }

interface Issue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** What a schema made of a payload, or why it refuses it. */
export type Verdict = { readonly value: unknown; readonly problem?: undefined } | { readonly problem: string }

const MOST_ISSUES = 3

/** @throws OptionError unless `value` is undefined or a Standard Schema */
export function optionalSchema<Schema>(value: Schema, what: string): Schema {
  const standard = (value as Partial<StandardSchema> | undefined)?.['~standard']
  if (value === undefined || typeof standard?.validate === 'function') return value
  throw new OptionError(
    `${what} must be a schema of zod, valibot, arktype, or another library that implements Standard Schema, not ${nameOf(value)}`,
  )
}

/** What a payload does that is refused. */
export function mismatch(queue: string, problem: string): string {
  return `does not match the schema of queue "${queue}": ${problem}`
}

/** Validates a payload as JSON has it. A promise only if the schema itself takes its time. Throws what the schema throws. */
export function judge(schema: StandardSchema, payload: unknown): Verdict | PromiseLike<Verdict> {
  const validated = schema['~standard'].validate(payload)
  return isPromise(validated) ? validated.then(verdictOf) : verdictOf(validated)
}

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | undefined)?.then === 'function'
}

function verdictOf(validated: Validated<unknown>): Verdict {
  if (validated?.issues) return { problem: problemOf(validated.issues) }
  // Taken for a value, nothing would be handed over, and the payload would be done.
  if (!validated || !('value' in validated))
    throw new TypeError('`validate` of the queue’s schema returned neither a `value` nor `issues`')
  return { value: validated.value }
}

/** Schemas name places and expectations, mostly without the values: those may be secret. */
function problemOf(issues: readonly Issue[]): string {
  const shown = issues.slice(0, MOST_ISSUES).map(lineOf).join('; ')
  const more = issues.length - MOST_ISSUES
  return more > 0 ? `${shown}; and ${more} more` : shown
}

function lineOf({ path, message }: Issue): string {
  if (!path?.length) return message
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return `${keys.join('.')}: ${message}`
}
