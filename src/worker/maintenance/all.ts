import { Leases } from './leases.ts'
import type { Maintenance } from './maintenance.ts'
import { Strays } from './strays.ts'
import { Sweeping, type SweepingOptions } from './sweeping.ts'
import { TenantLanes } from './tenant-lanes.ts'
import { Throttled, type ThrottledOptions } from './throttled.ts'
import { Trimming } from './trimming.ts'
import { Zombies } from './zombies.ts'

/** All maintenance that a worker does for all processes. Add new kinds to this list. */
export function allMaintenance(options: SweepingOptions & ThrottledOptions): readonly Maintenance[] {
  const { logger, rebalanceInterval } = options
  return [
    new Sweeping(options),
    new Zombies(logger, rebalanceInterval),
    new Strays(rebalanceInterval),
    new Leases(),
    new TenantLanes(options),
    new Throttled(options),
    new Trimming(),
  ]
}
