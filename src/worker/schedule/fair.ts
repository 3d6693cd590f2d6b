import { OptionError } from '../../errors.ts'
import { isPlain, nameOf, show } from '../../options.ts'
import { ignoreRejection } from '../../promises.ts'
import { byTurns } from './by-turns.ts'
import type { Scheduler } from './scheduler.ts'
import { isWeight, LEAST_WEIGHT, MOST_WEIGHT } from './weight.ts'

export interface FairOptions {
  /**
   * How much a tenant counts beside others, from 0.001 to 1,000: one of weight 2 has twice as many jobs performed. It is asked
   * for each job. A tenant for which it throws, or returns something else, counts as 1, which is told once. Default: 1.
   */
  readonly weight?: (tenant: string) => number
}

/**
 * The default. Queues take turns, and within a queue its lanes do, lane n 1/(n + 1) times as often as lane 0. In a queue
 * without rules, tenants share lane 0, by weight: the one that has been served least is next. Who had nothing due is neither
 * behind others' backlogs nor has anything saved up. Jobs of nobody in particular count as those of one more tenant. All
 * shares are by the number of jobs, however large batches are.
 * @throws OptionError if `weight` is no function
 */
export function fair(options: FairOptions = {}): Scheduler {
  const weights = new TenantWeights(checkOptions(options).weight)
  const turns = byTurns({
    ofQueue: () => 1,
    ofLane: (_, lane) => lane + 1,
    ofTenant: (tenant) => 1 / weights.of(tenant),
  })
  return {
    pick: turns.pick,
    took(candidate, jobs) {
      turns.took(candidate, jobs)
      weights.tell()
    },
  }
}

/** What the user's function says of tenants. */
class TenantWeights {
  readonly #weight: (tenant: string) => number
  #problem: OptionError | undefined
  #isTold = false

  constructor(weight: (tenant: string) => number = () => 1) {
    this.#weight = weight
  }

  of(tenant: string | null): number {
    if (tenant === null) return 1
    try {
      const weight: unknown = this.#weight(tenant)
      if (isWeight(weight)) return weight
      ignoreRejection(weight)
      this.#problem ??= problemOf(
        tenant,
        `must be a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}, not ${show(weight)}`,
      )
    } catch (error) {
      this.#problem ??= problemOf(tenant, 'could not be told', error)
    }
    return 1
  }

  /** @throws OptionError for the first problem, once */
  tell(): void {
    if (this.#isTold || !this.#problem) return
    this.#isTold = true
    throw this.#problem
  }
}

function problemOf(tenant: string, problem: string, cause?: unknown): OptionError {
  const error = new OptionError(`fair: the weight of tenant ${show(tenant)} ${problem}: it counts as 1`)
  return cause === undefined ? error : Object.assign(error, { cause })
}

function checkOptions(options: FairOptions): FairOptions {
  if (!isPlain(options))
    throw new OptionError(`fair: the options must be an object such as { weight }, not ${nameOf(options)}`)
  const { weight, ...unknown } = options
  const [name] = Object.keys(unknown)
  if (name !== undefined) throw new OptionError(`fair: unknown option ${show(name)}: there is \`weight\``)
  if (weight !== undefined && typeof weight !== 'function')
    throw new OptionError(`fair: weight must be a function of the tenant, not ${show(weight)}`)
  return options
}
