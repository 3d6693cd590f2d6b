import { OptionError } from '../../errors.ts'
import type { DeadFilter, DeadSort, JobFilter, JobSort, Page } from '../../index.ts'
import { rejectUnknownOptions, show, wholeNumber } from '../../options.ts'
import { MOST_RETRY } from '../../serving/values.ts'
import type { JobsTab } from './jobs.tsx'
import { queuePath } from './paths.ts'

/** What the address says of a list: its filter, its order and where it begins. */
export interface ListView {
  /** As they stand in the address, for links and forms. Without `after`. */
  readonly parameters: Readonly<Partial<Record<Parameter, string>>>
  readonly by: string
  readonly direction: 'asc' | 'desc'
  readonly after: string | undefined
  /** Whether it leaves out any. */
  readonly isFiltered: boolean
  /** All that match, as the body of an action of the API. */
  readonly matching: object
  /** Counts them, below the API's path. */
  readonly countPath: string
}

const DEAD_FILTERS = ['id', 'tenant', 'from', 'to'] as const
const FILTERS = [...DEAD_FILTERS, 'failures'] as const
const ORDER = ['sort', 'direction'] as const
type Parameter = (typeof FILTERS)[number] | (typeof ORDER)[number]

export const ROWS = 50

/**
 * @returns the view, and what to find for it
 * @throws OptionError for what can't be read: without it, a list and its actions would have more jobs than was asked for
 */
export function jobsView(
  queue: string,
  tab: JobsTab,
  query: URLSearchParams,
): { view: ListView; find: JobFilter & Page<JobSort> } {
  const parameters = parametersIn(query, FILTERS)
  const failures = Math.max(tab === 'retrying' ? 1 : 0, failuresOf(parameters))
  const filter: JobFilter = {
    ...idsOf(parameters.id),
    ...tenantOf(parameters),
    ...timesOf('performIn', parameters),
    ...(failures > 0 ? { retryCount: { from: failures - 1 } } : {}),
  }
  const state = tab === 'working' ? 'working' : 'waiting'
  const countPath = withFilter(`${queuePath(queue)}/jobs/count`, { ...filter, state })
  const list = listOf(query, parameters, ['performIn', 'id', 'retryCount'] as const, 'asc')
  const view = { ...list, parameters, matching: bodyOf(filter), countPath }
  return { view, find: { ...filter, state, ...pageOf(list) } }
}

/** @throws OptionError, as `jobsView` */
export function deadView(
  queue: string,
  query: URLSearchParams,
): { view: ListView; find: DeadFilter & Page<DeadSort> } {
  const parameters = parametersIn(query, DEAD_FILTERS)
  const filter: DeadFilter = {
    ...idsOf(parameters.id),
    ...tenantOf(parameters),
    ...timesOf('diedAt', parameters),
  }
  const countPath = withFilter(`${queuePath(queue)}/dead/count`, filter)
  const list = listOf(query, parameters, ['diedAt', 'id', 'score'] as const, 'desc')
  const view = { ...list, parameters, matching: bodyOf(filter), countPath }
  return { view, find: { ...filter, ...pageOf(list) } }
}

/** A field of the form that is empty filters nothing. */
function parametersIn(
  query: URLSearchParams,
  filters: readonly Parameter[],
): Partial<Record<Parameter, string>> {
  const known = [...filters, ...ORDER]
  rejectUnknownOptions(Object.fromEntries(query), [...known, 'after'], 'the list')
  // A tenant may begin or end with spaces, and links name it.
  const read = (name: Parameter) => (name === 'tenant' ? query.get(name) : query.get(name)?.trim())
  const given = known.map((name) => [name, read(name)] as const)
  return Object.fromEntries(given.filter(([, value]) => value))
}

interface List<Sort> extends Pick<ListView, 'direction' | 'after' | 'isFiltered'> {
  readonly by: Sort
}

function listOf<Sort extends string>(
  query: URLSearchParams,
  parameters: ListView['parameters'],
  sorts: readonly [Sort, ...Sort[]],
  usual: 'asc' | 'desc',
): List<Sort> {
  const { sort, direction } = parameters
  return {
    by: oneOf('sort', sort, sorts) ?? sorts[0],
    direction: oneOf('direction', direction, ['asc', 'desc'] as const) ?? usual,
    after: query.get('after') || undefined,
    isFiltered: FILTERS.some((name) => parameters[name] !== undefined),
  }
}

function oneOf<Value extends string>(
  name: Parameter,
  text: string | undefined,
  values: readonly Value[],
): Value | undefined {
  const value = values.find((one) => one === text)
  if (text === undefined || value !== undefined) return value
  throw new OptionError(`${name} must be ${values.join(' or ')}, not ${show(text)}`)
}

function failuresOf({ failures = '0' }: ListView['parameters']): number {
  return wholeNumber(/^\d+$/.test(failures) ? Number(failures) : failures, 0, MOST_RETRY + 1, 'failures')
}

function pageOf<Sort extends string>({ by, direction, after }: List<Sort>) {
  return { by, direction, limit: ROWS, ...(after === undefined ? {} : { after }) }
}

/** No id is greater that begins with the same text. */
const LAST = '\u{10ffff}'

/** One id, or all that begin with a text before `*`. */
function idsOf(given: string | undefined): Pick<JobFilter, 'ids' | 'id'> {
  if (given === undefined) return {}
  if (!given.endsWith('*')) return { ids: [given] }
  const start = given.slice(0, -1)
  return start === '' ? {} : { id: { from: start, to: start + LAST } }
}

function tenantOf({ tenant }: ListView['parameters']): Pick<JobFilter, 'tenant'> {
  return tenant === undefined ? {} : { tenant }
}

function timesOf<Name extends string>(
  name: Name,
  { from, to }: ListView['parameters'],
): { [Key in Name]?: { from?: Date; to?: Date } } {
  const range = { ...bound('from', from), ...bound('to', to) }
  if (Object.keys(range).length === 0) return {}
  return { [name]: range } as { [Key in Name]: { from?: Date; to?: Date } }
}

/** The field of a form names no zone: it is UTC, as all times of the page. */
function bound(name: 'from' | 'to', text: string | undefined): Record<string, Date> {
  if (text === undefined) return {}
  const time = Date.parse(/Z$|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`)
  if (Number.isNaN(time))
    throw new OptionError(`${name} must be a time such as 2011-10-11T13:45:40, not ${show(text)}`)
  return { [name]: new Date(time) }
}

function bodyOf(filter: object): object {
  return Object.keys(filter).length === 0 ? { all: true } : { filter }
}

/** As the API names filters in queries: `performIn.from`; `ids` may be repeated. */
function withFilter(path: string, filter: object): string {
  const query = new URLSearchParams()
  const add = (name: string, value: unknown) =>
    query.append(name, value instanceof Date ? value.toISOString() : String(value))
  for (const [name, value] of Object.entries(filter)) {
    if (Array.isArray(value)) for (const one of value) add(name, one)
    else if (typeof value === 'object')
      for (const [end, one] of Object.entries(value)) add(`${name}.${end}`, one)
    else add(name, value)
  }
  return `${path}?${query}`
}
