import { Expiry, type ExpiryOptions } from './expiry.ts'
import { Leases } from './leases.ts'
import type { Led, Maintenance } from './maintenance.ts'
import { Strays } from './strays.ts'
import { Sweeping, type SweepingOptions } from './sweeping.ts'
import { TenantLanes } from './tenant-lanes.ts'
import { type TellingOptions, TellingTenantWaits } from './tenant-waits.ts'
import { Throttled, type ThrottledOptions } from './throttled.ts'
import { Trimming } from './trimming.ts'
import { Zombies } from './zombies.ts'

type ConsumersOptions = SweepingOptions & Led & TellingOptions & ExpiryOptions

/** All maintenance that a worker does for all processes. Add new kinds to this list, or to that of consumers, too. */
export function allMaintenance(options: ConsumersOptions & ThrottledOptions): readonly Maintenance[] {
  return [...consumersMaintenance(options), new Leases(), new Throttled(options)]
}

/** What a consumer does, too: there may be no worker. It ends leases by itself, at their times. */
export function consumersMaintenance(options: ConsumersOptions): readonly Maintenance[] {
  const { logger, rebalanceInterval } = options
  return [
    new Sweeping(options),
    new Zombies(logger, rebalanceInterval),
    new Strays(rebalanceInterval),
    new TenantLanes(options),
    new TellingTenantWaits(options),
    new Trimming(),
    new Expiry(options),
  ]
}
