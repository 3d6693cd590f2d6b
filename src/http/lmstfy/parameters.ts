const UINT16 = 2 ** 16 - 1
const UINT32 = 2 ** 32 - 1
const INT64 = 2 ** 63 - 1
const MOST_JOBS_AT_ONCE = 100

/** Seconds, and a number of deliveries: what a request that doesn't say otherwise has. */
export interface Defaults {
  /** 0: for ever. */
  readonly ttl: number
  readonly delay: number
  readonly tries: number
  readonly ttr: number
  readonly timeout: number
}

export const DEFAULTS: Defaults = { ttl: 86_400, delay: 0, tries: 1, ttr: 120, timeout: 0 }

/** The answer is 400 with this as the `error`. */
export class BadParameter extends Error {}

export type Publishing = Pick<Defaults, 'ttl' | 'delay' | 'tries'>

export function publishingOf(query: URLSearchParams, defaults: Defaults): Publishing {
  const delay = unsigned(query, 'delay', UINT32, defaults.delay)
  const ttl = unsigned(query, 'ttl', UINT32, defaults.ttl)
  if (ttl > 0 && ttl < delay) throw new BadParameter('ttl is shorter than delay')
  const tries = unsigned(query, 'tries', UINT16, defaults.tries)
  if (tries === 0) throw new BadParameter("tries shouldn't be zero")
  return { delay, ttl, tries }
}

export interface Consuming extends Pick<Defaults, 'ttr' | 'timeout'> {
  readonly count: number
}

export function consumingOf(query: URLSearchParams, defaults: Defaults): Consuming {
  const ttr = unsigned(query, 'ttr', UINT32, defaults.ttr)
  const timeout = unsigned(query, 'timeout', UINT32, defaults.timeout)
  const count = unsigned(query, 'count', MOST_JOBS_AT_ONCE, 1)
  if (count === 0) throw new BadParameter('invalid count')
  return { ttr, timeout, count }
}

/** How many dead jobs, from 1. */
export function limitOf(query: URLSearchParams): number {
  const limit = unsigned(query, 'limit', INT64, 1)
  if (limit === 0) throw new BadParameter('invalid limit')
  return Math.min(limit, Number.MAX_SAFE_INTEGER)
}

export function respawnTtlOf(query: URLSearchParams, defaults: Defaults): number {
  return Math.min(unsigned(query, 'ttl', INT64, defaults.ttl), UINT32)
}

function unsigned(query: URLSearchParams, name: string, most: number, standard: number): number {
  const text = query.get(name)
  if (text === null) return standard
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!(value <= most)) throw new BadParameter(`invalid ${name}`)
  return value
}
