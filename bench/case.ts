import type pg from 'pg'
import type { Configuration, Contender, Ordering, Setting, Tuning } from './contender.ts'
import type { Entrant } from './entrants.ts'
import type { Cost, Meters } from './measure/cost.ts'

/** ms for a worker to have looked and gone idle, and for what a start brings with it to be over. */
export const SETTLE = 2_000

/** How much is done: enough for a figure that stands, or for a glance. */
export interface Size {
  readonly jobs: number
  /** s after which the rate is that of what was done until then. */
  readonly patience: number
  /** How long it takes, where a case goes by time. */
  readonly seconds?: number
  /** At most; default: as many as are asked for. */
  readonly repeats?: number
}

/** What a case works with: a contender that is set up, on a database of its own. */
export interface Bench {
  readonly entrant: Entrant
  readonly contender: Contender
  readonly setting: Setting
  readonly size: Size
  readonly pool: pg.Pool
  readonly meters: Meters
}

/** What was measured. */
export interface Figures {
  /** Whatever the case's unit is; of many times their p50. */
  readonly value: number
  readonly p95?: number
  readonly p99?: number
  readonly cost?: Cost
  readonly outOfOrder?: number
  /** Of `jobs`, those that were not done when patience ended. */
  readonly undone?: number
  /** Of each worker process. */
  readonly connections?: number
}

export interface Case {
  readonly name: string
  /** As a table's row is called. */
  readonly title: string
  /** Transactions a second at the server: `tx/s`. The more the better are `jobs/s` alone. */
  readonly unit: 'jobs/s' | 'ms' | 'MB' | 'tx/s'
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
  /** The only one in a quick run; default: all. */
  readonly quickConfiguration?: Configuration
  run(bench: Bench): Promise<Figures>
}
