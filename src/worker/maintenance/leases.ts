import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'
import { endLeases } from '../../store/leases.ts'
import type { Maintenance } from './maintenance.ts'

/** Most leases that a run ends. */
const CHUNK = 500

/** Ends leases of consumers that are over: the consumers may be gone. */
export class Leases implements Maintenance {
  readonly name = 'leases'
  readonly every = 1_000
  #exist = false

  see({ leases }: Comparison): void {
    this.#exist = leases
  }

  isDue(): boolean {
    return this.#exist
  }

  async run(database: Database): Promise<object | undefined> {
    const { rounds, next } = await endLeases(database, CHUNK)
    if (next === null) this.#exist = false
    return rounds > 0 ? { rounds } : undefined
  }
}
