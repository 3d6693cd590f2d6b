import type { DeadFilter, DeadSort, JobFilter, JobSort, Page } from '../../index.ts'
import type { JobsTab } from './jobs.tsx'
import { queuePath } from './paths.ts'

/** What the address says of a list: its filter, its order and where it begins. Unreadable values count as not given. */
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

const FILTERS = ['id', 'tenant', 'from', 'to', 'failures'] as const
const PARAMETERS = [...FILTERS, 'sort', 'direction'] as const
type Parameter = (typeof PARAMETERS)[number]

export const ROWS = 50

/** @returns the view, and what to find for it */
export function jobsView(
  queue: string,
  tab: JobsTab,
  query: URLSearchParams,
): { view: ListView; find: JobFilter & Page<JobSort> } {
  const parameters = parametersIn(query)
  const failures = Math.max(tab === 'retrying' ? 1 : 0, Number(parameters.failures ?? 0) || 0)
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

export function deadView(
  queue: string,
  query: URLSearchParams,
): { view: ListView; find: DeadFilter & Page<DeadSort> } {
  const parameters = parametersIn(query)
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

function parametersIn(query: URLSearchParams): Partial<Record<Parameter, string>> {
  // A tenant may begin or end with spaces, and links name it.
  const read = (name: Parameter) => (name === 'tenant' ? query.get(name) : query.get(name)?.trim())
  const given = PARAMETERS.map((name) => [name, read(name)] as const)
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
    by: sorts.find((one) => one === sort) ?? sorts[0],
    direction: direction === 'asc' || direction === 'desc' ? direction : usual,
    after: query.get('after') || undefined,
    isFiltered: FILTERS.some((name) => parameters[name] !== undefined),
  }
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
  const time =
    text === undefined ? Number.NaN : Date.parse(/Z$|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`)
  return Number.isNaN(time) ? {} : { [name]: new Date(time) }
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
