import type { Chance } from './chance.ts'
import type { Cluster } from './cluster.ts'

/**
 * Something that goes wrong in a cluster. It is over when `inject` resolves, but what it broke may still be down then.
 */
export interface Fault {
  readonly name: string
  /** How often it is drawn, compared with others. */
  readonly weight: number
  /** Whether this machine has what the fault needs. Default: it has. */
  possible?(): boolean
  inject(cluster: Cluster, chance: Chance): Promise<void>
}
