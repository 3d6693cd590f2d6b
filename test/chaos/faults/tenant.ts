import type { Fault } from '../fault.ts'
import { FLOODING, TENANTED } from '../queues.ts'

/** Of those in a lane that rules have sent it to, others wait behind: they have pushed much, too. */
const SHARE_OF_RULED = 0.2

/**
 * Others go on meanwhile, as the probes show. By its limits, what the tenant has pushed takes longer than the judge lets anyone
 * starve: who had to wait behind all of that would be found.
 */
const flood: Fault = {
  name: 'tenant that pushes hundreds of jobs at once',
  weight: 1,
  async inject(cluster) {
    for (const queue of TENANTED) {
      const length = cluster.scale.flood * (queue === 'ruled' ? SHARE_OF_RULED : 1)
      await cluster.patiently(async () => {
        // New ones each time: if the answer of the last try was lost, it may have been committed.
        const name = cluster.name(FLOODING)
        const ids = Array.from({ length }, (_, index) => `${name}-${index}`)
        await cluster.push(ids, 1, [queue])
      })
    }
  },
}

export const tenantFaults: readonly Fault[] = [flood]
