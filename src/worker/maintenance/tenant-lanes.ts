import type { Database } from '../../postgres/database.ts'
import { trimTenantLanes } from '../../store/tenants.ts'
import type { Led, Maintenance } from './maintenance.ts'

/**
 * Gives back lanes of tenants: there are few. Of several workers, the one does it that holds the first shard of a queue whose
 * tenants have lanes.
 */
export class TenantLanes implements Maintenance {
  readonly name = 'tenant lanes'
  readonly every = 30_000
  readonly #options: Led

  constructor(options: Led) {
    this.#options = options
  }

  isDue(): boolean {
    return this.#options.ledQueues().some(({ hasTenants }) => hasTenants)
  }

  async run(database: Database): Promise<undefined> {
    await trimTenantLanes(database)
  }
}
