import type { Database } from '../../postgres/database.ts'
import { noteTenantWaits, type TenantWaits } from '../../store/tenants.ts'
import type { Maintenance } from './maintenance.ts'

/** ms between tellings while no job is late: what was told counts for ten seconds. */
const CALM = 5_000

export interface TellingOptions {
  /** How long jobs have waited in the shards of this process. */
  tenantWaits(): readonly TenantWaits[]
}

/**
 * Tells producers where tenants' jobs wait. A push that looked for the oldest job of a lane would pass the index entries of all that
 * has been completed there since some old snapshot.
 */
export class TellingTenantWaits implements Maintenance {
  readonly name = 'tenant waits'
  readonly every = 2_000
  readonly #options: TellingOptions
  /** In ms of the monotonic clock. */
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(options: TellingOptions) {
    this.#options = options
  }

  isDue(): boolean {
    const all = this.#options.tenantWaits()
    const isCalm = all.every(({ waits }) => waits.every((seconds) => seconds <= 1))
    return all.length > 0 && (!isCalm || performance.now() - this.#toldAt >= CALM)
  }

  async run(database: Database): Promise<undefined> {
    this.#toldAt = performance.now()
    await noteTenantWaits(database, this.#options.tenantWaits())
  }
}
