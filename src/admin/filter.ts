import { OptionError } from '../errors.ts'
import { isStorable, rejectUnknownOptions, STORABLE_TEXT, show, wholeNumber } from '../options.ts'
import type { JobFilter } from '../store/jobs.ts'
import type { DeadFilter } from '../store/morgue.ts'
import type { FullPage, Page, Range } from '../store/page.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1_000
const PAGE = ['by', 'direction', 'after', 'limit']

/** The check for a value of a filter, and its name in errors. */
type Kind = readonly [name: string, is: (value: unknown) => boolean]
const TEXT: Kind = [STORABLE_TEXT, (value) => typeof value === 'string' && isStorable(value)]
const NUMBER: Kind = ['a number', (value) => typeof value === 'number' && !Number.isNaN(value)]
const WHOLE: Kind = ['a whole number', (value) => Number.isInteger(value)]
const DATE: Kind = ['a valid Date', (value) => value instanceof Date && !Number.isNaN(value.getTime())]
const DIGEST: Kind = [
  '64 hexadecimal digits',
  (value) => typeof value === 'string' && /^[\da-f]{64}$/i.test(value),
]
const KEY: Kind = [
  '32 hexadecimal digits',
  (value) => typeof value === 'string' && /^[\da-f]{32}$/.test(value),
]
/** None is empty: who passes that has probably read a variable that was not set. */
const TENANT: Kind = [
  'well-formed text, or null for what has none',
  (value) => value === null || (TEXT[1](value) && value !== ''),
]
const STATES = ['waiting', 'working']

/**
 * For operations that change all matches: a key without a value is probably a variable that was not set, and without
 * that condition the filter would match every job.
 * @throws OptionError
 */
export function requireValues(filter: object, what: string): void {
  for (const [key, value] of Object.entries(filter)) {
    if (value === undefined)
      throw new OptionError(`${what}: ${key} is undefined: give it a value, or leave the key out`)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) continue
    const bounds = Object.entries(value)
    if (bounds.length === 0)
      throw new OptionError(`${what}: ${key} has neither from nor to: give one, or leave the key out`)
    for (const [bound, limit] of bounds) {
      if (limit === undefined)
        throw new OptionError(`${what}: ${key}.${bound} is undefined: give it a value, or leave the key out`)
    }
  }
}

/** @throws OptionError: a misspelt filter would otherwise match every job */
export function checkJobFilter(filter: JobFilter, what: string, more: readonly string[] = []): void {
  checkKeys(filter, ['ids', 'id', 'performIn', 'retryCount', 'state', 'tenant', ...more], what)
  checkList(filter.ids, TEXT, `${what}: ids`)
  checkRange(filter.id, TEXT, `${what}: id`)
  checkRange(filter.performIn, DATE, `${what}: performIn`)
  checkRange(filter.retryCount, WHOLE, `${what}: retryCount`)
  if (filter.state !== undefined) oneOf(filter.state, STATES, `${what}: state`)
  checkTenant(filter.tenant, what)
}

/** @throws OptionError */
export function checkDeadFilter(filter: DeadFilter, what: string, more: readonly string[] = []): void {
  checkKeys(filter, ['ids', 'id', 'diedAt', 'score', 'digests', 'keys', 'tenant', ...more], what)
  checkList(filter.ids, TEXT, `${what}: ids`)
  checkRange(filter.id, TEXT, `${what}: id`)
  checkRange(filter.diedAt, DATE, `${what}: diedAt`)
  checkRange(filter.score, NUMBER, `${what}: score`)
  checkList(filter.digests, DIGEST, `${what}: digests`)
  checkList(filter.keys, KEY, `${what}: keys`)
  checkTenant(filter.tenant, what)
  if (filter.keys && !filter.ids)
    throw new OptionError(`${what}: keys need the ids of their jobs beside them: give \`ids\`, too`)
}

/**
 * `all`: the most there can be, if the page has all of them by default.
 * @throws OptionError
 */
export function fullPage<By extends string>(
  page: Page<By>,
  sorts: readonly By[],
  byDefault: By,
  what: string,
  all?: number,
): FullPage<By> {
  const { by = byDefault, direction = 'asc', after, limit } = page
  if (after !== undefined) check(after, TEXT, `${what}: after`)
  return {
    by: oneOf(by, sorts, `${what}: by`),
    direction: oneOf(direction, ['asc', 'desc'] as const, `${what}: direction`),
    after,
    limit: limit === undefined ? (all ?? DEFAULT_LIMIT) : wholeNumber(limit, 1, MAX_LIMIT, `${what}: limit`),
  }
}

export const PAGE_KEYS: readonly string[] = PAGE

function checkKeys(filter: object, known: readonly string[], what: string): void {
  if (typeof filter !== 'object' || filter === null || Array.isArray(filter))
    throw new OptionError(`${what} takes a filter, {} for all, not ${show(filter)}`)
  rejectUnknownOptions(filter, known, what)
}

function checkTenant(tenant: unknown, what: string): void {
  if (tenant !== undefined) check(tenant, TENANT, `${what}: tenant`)
}

function checkList(values: unknown, kind: Kind, what: string): void {
  if (values === undefined) return
  if (!Array.isArray(values)) throw new OptionError(`${what} must be an array, not ${show(values)}`)
  for (const [index, value] of values.entries()) check(value, kind, `${what}[${index}]`)
}

function checkRange(range: Range<unknown> | undefined, kind: Kind, what: string): void {
  if (range === undefined) return
  if (typeof range !== 'object' || range === null)
    throw new OptionError(`${what} must be a range { from, to }, not ${show(range)}`)
  rejectUnknownOptions(range, ['from', 'to'], what)
  if (range.from !== undefined) check(range.from, kind, `${what}.from`)
  if (range.to !== undefined) check(range.to, kind, `${what}.to`)
}

function check(value: unknown, [name, is]: Kind, what: string): void {
  if (!is(value)) throw new OptionError(`${what} must be ${name}, not ${show(value)}`)
}

function oneOf<T extends string>(value: T, known: readonly T[], what: string): T {
  if (known.includes(value)) return value
  throw new OptionError(`${what} must be ${known.join(' or ')}, not ${show(value)}`)
}
