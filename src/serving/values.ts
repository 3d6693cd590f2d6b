import { OptionError } from '../errors.ts'
import { show } from '../options.ts'

const TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/
const DECIMAL = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
/** Of a Date, in ms. */
const LAST_TIME = 8.64e15

/** @throws OptionError unless it is ISO 8601 with a zone, a date, or ms since 1970 */
export function timeOf(value: unknown, what: string): Date {
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text === 'string') {
    const ms = /^-?\d+$/.test(text) ? Number(text) : isTime(text) ? Date.parse(text) : Number.NaN
    if (Math.abs(ms) <= LAST_TIME) return new Date(ms)
  }
  throw new OptionError(
    `${what} must be a time such as 2011-10-11T13:45:40Z (with its zone; write + as %2B in a URL), or ms since 1970, not ${show(value)}`,
  )
}

/** Date.parse takes February 30 for March 2. */
function isTime(text: string): boolean {
  const date = text.slice(0, 10)
  const day = Date.parse(date)
  return TIME.test(text) && !Number.isNaN(day) && new Date(day).toISOString().startsWith(date)
}

/** @throws OptionError */
export function numberOf(text: string, what: string): number {
  const number = Number(text)
  if (DECIMAL.test(text) && Number.isFinite(number)) return number
  throw new OptionError(`${what} must be a number, not ${show(text)}`)
}

/** Of a retry count, as the database can hold it. */
export const [LEAST_RETRY, MOST_RETRY] = [-1, 2 ** 31 - 1]

/** Without the keys whose value is undefined: those of a filter mean something. */
export function given<T extends object>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T
}
