import { Shared } from '../../serving/shared.ts'
import { type SizesOfQueue, sizesOfQueues } from '../../store/sizes.ts'
import type { QueueSizes } from './metrics.ts'
import { partsOf } from './names.ts'
import type { Pool } from './pool.ts'

/** How much lies in the queues of lmstfy's. Of a pool that can't be asked, there are none. */
export function sizesOf(pools: readonly Pool[]): () => Promise<readonly QueueSizes[]> {
  const shared = new Shared(async () => (await Promise.all(pools.map(sizesIn))).flat())
  return async () => (await shared.get()).value
}

async function sizesIn({ name: pool, database }: Pool): Promise<QueueSizes[]> {
  const sizes = await sizesOfQueues(database).catch((): SizesOfQueue[] => [])
  return sizes.flatMap(({ name, ...size }) => {
    const parts = partsOf(name)
    return parts ? [{ pool, ...parts, ...size }] : []
  })
}
