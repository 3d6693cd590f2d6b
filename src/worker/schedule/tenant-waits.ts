import { LAST_TENANT_LANE } from '../../job.ts'
import type { TenantWaits } from '../../store/tenants.ts'
import { NEVER } from './places.ts'
import type { Shard } from './shard.ts'

/** Most seconds that are told: what has been due since long ago. */
const MOST = 1e9

/**
 * How long the first jobs of tenants have been due in these shards, in seconds, and which tenant fills the lane. At least one second for
 * each lane that holds a job, also of a later time: nobody who comes gets that lane, as long as there is another one, and it isn't
 * given back.
 * @param now in µs
 */
export function tenantWaits(shards: Iterable<Shard>, now: number): TenantWaits[] {
  const all = new Map<number, Told>()
  for (const { served, lanes } of shards) {
    if (!served.hasTenants) continue
    for (const { key, oldest, owner } of lanes.values()) {
      if (key.lane >= 0 || oldest === NEVER) continue
      const seconds = Math.min(MOST, Math.max(1, Math.floor((now - oldest) / 1e6)))
      const told = all.get(key.queueId) ?? nothingTold()
      all.set(key.queueId, told)
      const place = -1 - key.lane
      if (seconds <= told.waits[place]!) continue
      told.waits[place] = seconds
      told.tenants[place] = owner ?? ''
    }
  }
  return Array.from(all, ([queueId, told]) => ({ queueId, ...told }))
}

interface Told {
  readonly waits: number[]
  readonly tenants: string[]
}

function nothingTold(): Told {
  return { waits: Array(-LAST_TENANT_LANE).fill(0), tenants: Array(-LAST_TENANT_LANE).fill('') }
}
