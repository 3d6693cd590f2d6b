import { OptionError } from '../../errors.ts'
import type { DeadFilter, DeadSort, JobFilter, JobSort, Page, Range } from '../../index.ts'
import { rejectUnknownOptions, show, wholeNumber } from '../../options.ts'
import { given, LEAST_RETRY, MOST_RETRY, numberOf, timeOf } from '../../serving/values.ts'
import type { Extent } from '../reads/reads.ts'

const MAX_LENGTH = 12 * 1024 * 1024
const MAX_PAYLOADS = 1_000

const IDS = ['ids', 'id.from', 'id.to', 'tenant']
const PAGE = ['by', 'direction', 'after', 'limit']
const JOBS = [...IDS, 'performIn.from', 'performIn.to', 'retryCount.from', 'retryCount.to', 'state']
const DEAD = [...IDS, 'diedAt.from', 'diedAt.to', 'score.from', 'score.to', 'keys']

/** The parameters of a request. A filter's have the names that it has in TypeScript: `performIn.from`; `ids` may be repeated. */
export class Query {
  readonly #params: URLSearchParams
  readonly #what: string

  constructor(url: string, what: string) {
    this.#params = new URL(url).searchParams
    this.#what = what
  }

  /** @throws OptionError for any parameter with another name */
  only(...known: readonly string[]): this {
    rejectUnknownOptions(Object.fromEntries(this.#params), known, this.#what)
    return this
  }

  /** @throws OptionError if it is given twice */
  one(name: string): string | undefined {
    const [value, ...more] = this.#params.getAll(name)
    if (more.length > 0) throw new OptionError(`${this.#what}: ${name} is given twice`)
    return value
  }

  /** @throws OptionError */
  required(name: string): string {
    const value = this.one(name)
    if (value !== undefined) return value
    throw new OptionError(`${this.#what}: ${name} is missing`)
  }

  all(name: string): string[] | undefined {
    return this.#params.has(name) ? this.#params.getAll(name) : undefined
  }

  whole(name: string, min: number, max: number): number | undefined {
    const text = this.one(name)
    if (text === undefined) return undefined
    const what = `${this.#what}: ${name}`
    return wholeNumber(/^[+-]?\d+$/.test(text) ? Number(text) : text, min, max, what)
  }

  range<T>(name: string, read: (text: string, what: string) => T): Range<T> | undefined {
    const bound = (end: string) => {
      const text = this.one(`${name}.${end}`)
      return text === undefined ? undefined : read(text, `${this.#what}: ${name}.${end}`)
    }
    const [from, to] = [bound('from'), bound('to')]
    return from === undefined && to === undefined ? undefined : given({ from, to })
  }
}

const text = (value: string) => value

function retryCount(value: string, what: string): number {
  return wholeNumber(/^[+-]?\d+$/.test(value) ? Number(value) : value, LEAST_RETRY, MOST_RETRY, what)
}

/** An empty one stands for null, which a query can't say. */
function tenantIn(query: Query): string | null | undefined {
  const tenant = query.one('tenant')
  return tenant === '' ? null : tenant
}

function jobFilterIn(query: Query): JobFilter {
  return given({
    ids: query.all('ids'),
    id: query.range('id', text),
    performIn: query.range('performIn', timeOf),
    retryCount: query.range('retryCount', retryCount),
    state: query.one('state') as JobFilter['state'],
    tenant: tenantIn(query),
  })
}

function deadFilterIn(query: Query): DeadFilter {
  return given({
    ids: query.all('ids'),
    id: query.range('id', text),
    diedAt: query.range('diedAt', timeOf),
    score: query.range('score', numberOf),
    keys: query.all('keys'),
    tenant: tenantIn(query),
  })
}

/** The values are checked by what uses them, except the limit: of ids without one, all would be on one page. */
function pageIn<By extends string>(query: Query): Page<By> {
  const limit = query.whole('limit', 1, 1_000) ?? 100
  const [by, direction, after] = ['by', 'direction', 'after'].map((name) => query.one(name))
  return given({ by, direction, after, limit }) as Page<By>
}

function extentIn(query: Query, { payloads, length }: Extent): Extent {
  return {
    payloads: query.whole('payloads', 0, MAX_PAYLOADS) ?? payloads,
    length: query.whole('length', 0, MAX_LENGTH) ?? length,
  }
}

/** In a list, and of one job. */
const SHORT: Extent = { payloads: 3, length: 1_000 }
const LONG: Extent = { payloads: 100, length: 100_000 }

/** @throws OptionError, like all below */
export function jobFilterOf(url: string): JobFilter {
  return jobFilterIn(new Query(url, 'count').only(...JOBS))
}

export function deadFilterOf(url: string): DeadFilter {
  return deadFilterIn(new Query(url, 'count').only(...DEAD))
}

export function jobQueryOf(url: string): { filter: JobFilter & Page<JobSort>; extent: Extent } {
  const query = new Query(url, 'jobs').only(...JOBS, ...PAGE, 'payloads', 'length')
  return { filter: { ...jobFilterIn(query), ...pageIn<JobSort>(query) }, extent: extentIn(query, SHORT) }
}

export function deadQueryOf(url: string): { filter: DeadFilter & Page<DeadSort>; length: number } {
  const query = new Query(url, 'dead').only(...DEAD, ...PAGE, 'length')
  return {
    filter: { ...deadFilterIn(query), ...pageIn<DeadSort>(query) },
    length: extentIn(query, SHORT).length,
  }
}

export function oneJobOf(url: string): { id: string; extent: Extent } {
  const query = new Query(url, 'job').only('id', 'payloads', 'length')
  const id = query.required('id')
  if (id === '') throw new OptionError(`job: id must not be empty, not ${show(id)}`)
  return { id, extent: extentIn(query, LONG) }
}

/** For what takes no parameters. */
export function noQuery(url: string): void {
  new Query(url, 'the request').only()
}
