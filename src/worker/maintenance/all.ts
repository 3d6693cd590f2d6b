import { Expiry, type ExpiryOptions } from './expiry.ts'
import { Leases } from './leases.ts'
import type { Led, Maintenance } from './maintenance.ts'
import { Strays } from './strays.ts'
import { Sweeping, type SweepingOptions } from './sweeping.ts'
import { TenantLanes } from './tenant-lanes.ts'
import { Throttled, type ThrottledOptions } from './throttled.ts'
import { Trimming } from './trimming.ts'
import { Zombies } from './zombies.ts'

/** All maintenance that a worker does for all processes. Add new kinds to this list, or to that of consumers, too. */
export function allMaintenance(
  options: SweepingOptions & ThrottledOptions & ExpiryOptions,
): readonly Maintenance[] {
  return [...consumersMaintenance(options), new Leases(), new Throttled(options)]
}

/** What a consumer does, too: there may be no worker. It ends leases by itself, at their times. */
export function consumersMaintenance(options: SweepingOptions & Led & ExpiryOptions): readonly Maintenance[] {
  const { logger, rebalanceInterval } = options
  return [
    new Sweeping(options),
    new Zombies(logger, rebalanceInterval),
    new Strays(rebalanceInterval),
    new TenantLanes(options),
    new Trimming(),
    new Expiry(options),
  ]
}
