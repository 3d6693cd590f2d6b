import { OptionError } from './errors.ts'
import { rejectUnknownOptions, show, wholeNumber } from './options.ts'

export interface Rate {
  /** 1 to 1,000,000. */
  readonly jobs: number
  /** Seconds, up to 31 days. */
  readonly per: number
}

export interface Limit {
  /** Most ids that all processes together have claimed at once, prefetched ones included. 1 to 1,000,000. */
  readonly concurrency?: number
  /**
   * Most rounds that begin within any `per` seconds, wherever those are laid: the window slides. A round begins when its job
   * is claimed; a retry is another one, and so is one that was released and claimed anew. A start counts for a
   * little longer than `per`, since its handler begins a moment later: a tenth of that, and of a second, at most; above ten
   * seconds, up to a hundredth of `per`.
   */
  readonly rate?: Rate
}

export interface Limits extends Limit {
  /** For each tenant. Jobs of nobody in particular have no such limit. */
  readonly tenant?: Limit
}

const MOST = 1_000_000
const LONGEST_WINDOW = 31 * 86_400
const SHORTEST_WINDOW = 0.001

/** @throws OptionError for a limit that could not do what it says. Undefined if there is none. */
export function checkLimits(limits: Limits | undefined, what: string): Limits | undefined {
  if (limits === undefined) return undefined
  rejectUnknownOptions(limits, ['concurrency', 'rate', 'tenant'], what)
  const { tenant, ...own } = limits
  const checked = checkLimit(own, what)
  if (tenant === undefined) return isEmpty(checked) ? undefined : checked
  rejectUnknownOptions(tenant, ['concurrency', 'rate'], `${what}: tenant`)
  const ofTenant = checkLimit(tenant, `${what}: tenant`)
  if (!isEmpty(ofTenant)) return { ...checked, tenant: ofTenant }
  return isEmpty(checked) ? undefined : checked
}

function checkLimit({ concurrency, rate }: Limit, what: string): Limit {
  return {
    ...(concurrency === undefined
      ? {}
      : { concurrency: wholeNumber(concurrency, 1, MOST, `${what}: concurrency`) }),
    ...(rate === undefined ? {} : { rate: checkRate(rate, `${what}: rate`) }),
  }
}

function checkRate(rate: Rate, what: string): Rate {
  rejectUnknownOptions(rate, ['jobs', 'per'], what)
  const { jobs, per } = rate
  wholeNumber(jobs, 1, MOST, `${what}: jobs`)
  if (typeof per !== 'number' || !(per >= SHORTEST_WINDOW && per <= LONGEST_WINDOW))
    throw new OptionError(
      `${what}: per must be a number of seconds from ${SHORTEST_WINDOW} to ${LONGEST_WINDOW}, not ${show(per)}`,
    )
  return { jobs, per }
}

function isEmpty(limit: Limit): boolean {
  return Object.keys(limit).length === 0
}
