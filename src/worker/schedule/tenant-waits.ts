import { LAST_TENANT_LANE } from '../../job.ts'
import type { TenantWaits } from '../../store/tenants.ts'
import type { Shard } from './shard.ts'

/** Most seconds that are told: what has been due since long ago. */
const MOST = 1e9

/**
 * How long the first jobs of tenants have been due in these shards, of queues in which any has been for a second.
 * @param now in µs
 */
export function tenantWaits(shards: Iterable<Shard>, now: number): TenantWaits[] {
  const waits = new Map<number, number[]>()
  for (const { served, lanes } of shards) {
    if (!served.hasTenants) continue
    for (const { key, oldest } of lanes.values()) {
      const seconds = Math.min(MOST, Math.floor((now - oldest) / 1e6))
      if (key.lane >= 0 || seconds < 1) continue
      const ofQueue = waits.get(key.queueId) ?? Array<number>(-LAST_TENANT_LANE).fill(0)
      waits.set(key.queueId, ofQueue)
      const place = -1 - key.lane
      ofQueue[place] = Math.max(ofQueue[place]!, seconds)
    }
  }
  return Array.from(waits, ([queueId, waits]) => ({ queueId, waits }))
}
