import type pg from 'pg'
import type { Configuration, Contender, Ordering, Setting, Tuning } from './contender.ts'
import type { Entrant } from './entrants.ts'
import type { Cost, Meters } from './measure/cost.ts'

/** ms until a worker has looked and gone idle, and everything that a start brings with it is over. */
export const SETTLE = 2_000

/** How much is done: enough for a reliable figure, or for a glance. */
export interface Size {
  readonly jobs: number
  /** s after which the run ends; the rate is then that of the jobs done until then. */
  readonly patience: number
  /** How long the case takes, if it goes by time. */
  readonly seconds?: number
  /** Most repeats; default: as many as were asked for. */
  readonly repeats?: number
}

/** What a case works with: a contender that is set up, in its own database. */
export interface Bench {
  readonly entrant: Entrant
  readonly contender: Contender
  readonly setting: Setting
  readonly size: Size
  readonly pool: pg.Pool
  readonly meters: Meters
}

/** How evenly tenants are served; all in s. `head`: of the first jobs of each. Deviations are those among the tenants. */
export interface Fairness {
  /** From the first push to the last start. */
  readonly makespan: number
  readonly headMean: number
  readonly headP90: number
  readonly mean: number
  readonly p90: number
}

/** The measured figures. */
export interface Figures {
  /** In the case's unit; of many times, their p50. */
  readonly value: number
  readonly p95?: number
  readonly p99?: number
  readonly cost?: Cost
  readonly outOfOrder?: number
  /** How many of `jobs` were not done when patience ended. */
  readonly undone?: number
  /** Per worker process. */
  readonly connections?: number
  readonly fairness?: Fairness
}

export interface Case {
  readonly name: string
  /** The name of its row in a table. */
  readonly title: string
  /** `tx/s`: transactions a second at the server. `×`: a share. More is better only for `jobs/s` and `×`. */
  readonly unit: 'jobs/s' | 'ms' | 'MB' | 'tx/s' | 'packages' | '×'
  /** Default `any`. */
  readonly ordering?: Ordering
  /** Default 10. */
  readonly concurrency?: number
  /** Default 40. */
  readonly connections?: number
  readonly retryIn?: Setting['retryIn']
  /** Default: none. */
  readonly tuning?: Tuning
  readonly entrants: readonly Entrant[]
  readonly full: Size
  readonly quick: Size
  /** Default true. */
  readonly inQuick?: boolean
  /** The only configuration in a quick run; default: all. */
  readonly quickConfiguration?: Configuration
  run(bench: Bench): Promise<Figures>
}
