import type { Database } from '../../postgres/database.ts'
import { noteTenantWaits, type TenantWaits } from '../../store/tenants.ts'
import type { Maintenance } from './maintenance.ts'

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

  constructor(options: TellingOptions) {
    this.#options = options
  }

  isDue(): boolean {
    return this.#options.tenantWaits().length > 0
  }

  async run(database: Database): Promise<undefined> {
    await noteTenantWaits(database, this.#options.tenantWaits())
  }
}
