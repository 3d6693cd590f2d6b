import { closest, distance } from 'fastest-levenshtein'
import { OptionError } from './errors.ts'

/** @throws OptionError naming the first unknown key, with the nearest known one if there is one. */
export function rejectUnknownOptions(options: object, known: readonly string[], what: string): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new OptionError(`${what}: the options must be an object, not ${show(options)}`)
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue
    throw new OptionError(`${what}: unknown option \`${key}\`, ${hintFor(key, known)}`)
  }
}

/** The nearest known name, or all of them. */
export function hintFor(key: string, known: readonly string[]): string {
  if (known.length === 0) return 'there are none'
  const nearest = closest(key, known)
  return distance(key, nearest) <= 3
    ? `did you mean \`${nearest}\`?`
    : `the known ones are ${known.join(', ')}`
}

/** What text has to be so that Postgres can hold it. */
export const STORABLE_TEXT = 'well-formed text without \\u0000'

/** Whether Postgres can hold it. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\u0000')
}

/** @throws OptionError unless `value` is text that Postgres can hold. */
export function storableText(value: string, what: string): void {
  if (!isStorable(value)) throw new OptionError(`${what} must be ${STORABLE_TEXT}`)
}

/** @throws OptionError unless `value` is a whole number from `min` to `max`. */
export function wholeNumber(value: unknown, min: number, max: number, what: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw new OptionError(`${what} must be a whole number from ${min} to ${max}, not ${show(value)}`)
}

/** @throws OptionError unless `value` is true or false. */
export function trueOrFalse(value: unknown, what: string): boolean {
  if (typeof value === 'boolean') return value
  throw new OptionError(`${what} must be true or false, not ${show(value)}`)
}

/** @throws OptionError unless `value` is undefined or an AbortSignal. */
export function optionalSignal(value: AbortSignal | undefined, what: string): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value
  throw new OptionError(`${what} must be an AbortSignal, not ${show(value)}`)
}

/** @throws OptionError unless `value` is undefined or a function. */
export function optionalFunction<T>(value: T, what: string): T {
  if (value === undefined || typeof value === 'function') return value
  throw new OptionError(`${what} must be a function, not ${show(value)}`)
}

/** @throws OptionError unless `value` is a list of functions; undefined counts as an empty list. */
export function optionalFunctions<T>(value: readonly T[] | undefined, what: string): readonly T[] {
  if (value === undefined) return []
  if (!Array.isArray(value)) throw new OptionError(`${what} must be a list of functions, not ${show(value)}`)
  for (const [index, one] of value.entries()) {
    if (typeof one !== 'function')
      throw new OptionError(`${what}[${index}] must be a function, not ${show(one)}`)
  }
  return value
}

/** A short form of any value, for a message. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `"${value.length > 40 ? `${value.slice(0, 40)}…` : value}"`
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

/** Whether it is an object whose own keys are all that it holds, unlike those of a Map. */
export function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return [Object.prototype, null].includes(Object.getPrototypeOf(value))
}

/** The class of an object, for a message: "a DataSource". Anything else as `show` has it. */
export function nameOf(value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return show(value)
  const name = value.constructor?.name
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`
    : 'an object'
}
