import { type SizesOfQueue, sizesOfQueues } from '../../store/sizes.ts'
import type { QueueSizes } from './metrics.ts'
import { partsOf } from './names.ts'
import type { Pool } from './pool.ts'

/** ms for which what was counted is told again, and how many times as long as counting took. */
const LEAST_KEPT = 5_000
const KEPT_TIMES = 100

/** How much lies in the queues of lmstfy's. Whoever asks while it is counted gets the same. */
export class Sizes {
  readonly #pools: readonly Pool[]
  #counting: Promise<readonly QueueSizes[]> | undefined

  constructor(pools: readonly Pool[]) {
    this.#pools = pools
  }

  /** Of a pool that can't be asked, there are none. */
  read(): Promise<readonly QueueSizes[]> {
    this.#counting ??= this.#count()
    return this.#counting
  }

  async #count(): Promise<readonly QueueSizes[]> {
    const begun = performance.now()
    const all = await Promise.all(this.#pools.map(sizesOf))
    const kept = Math.max(LEAST_KEPT, KEPT_TIMES * (performance.now() - begun))
    setTimeout(() => {
      this.#counting = undefined
    }, kept).unref()
    return all.flat()
  }
}

async function sizesOf({ name: pool, database }: Pool): Promise<QueueSizes[]> {
  const sizes = await sizesOfQueues(database).catch((): SizesOfQueue[] => [])
  return sizes.flatMap(({ name, ...size }) => {
    const parts = partsOf(name)
    return parts ? [{ pool, ...parts, ...size }] : []
  })
}
