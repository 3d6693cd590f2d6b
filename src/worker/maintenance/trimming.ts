import type { Database } from '../../postgres/database.ts'
import { trimAudit } from '../../store/audit.ts'
import { trimMinutes } from '../../store/counter.ts'
import { trimLimits } from '../../store/limits.ts'
import { trimTenants } from '../../store/tenants.ts'
import type { Maintenance } from './maintenance.ts'

/** ms. */
const TEN_MINUTES = 600_000

/**
 * Deletes data that is kept for a limited time: counts by minute, the audit, what tenants have pushed, and what limits have
 * counted.
 */
export const trimming: Maintenance = {
  name: 'trimming',
  every: TEN_MINUTES,
  async run(database: Database) {
    const minutes = await trimMinutes(database)
    const audit = await trimAudit(database)
    const tenants = await trimTenants(database)
    const limits = await trimLimits(database)
    return minutes + audit + tenants + limits > 0 ? { minutes, audit, tenants, limits } : undefined
  },
}
