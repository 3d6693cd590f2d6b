import type { Database } from '../../postgres/database.ts'
import { trimTenantLanes } from '../../store/tenants.ts'
import type { Led, Maintenance } from './maintenance.ts'

/**
 * Gives back lanes of tenants: there are few. Of several processes, the one does it for a queue that holds its first shard, once it
 * has held it for a while: by then, whoever has just begun to serve the queue has told where jobs wait.
 */
export class TenantLanes implements Maintenance {
  readonly name = 'tenant lanes'
  readonly every = 30_000
  readonly #options: Led
  #known: ReadonlySet<number> = new Set()

  constructor(options: Led) {
    this.#options = options
  }

  isDue(): boolean {
    return this.#led.length > 0
  }

  async run(database: Database): Promise<undefined> {
    const led = this.#led
    const known = led.filter((queueId) => this.#known.has(queueId))
    this.#known = new Set(led)
    if (known.length > 0) await trimTenantLanes(database, known)
  }

  get #led(): number[] {
    return this.#options.ledQueues().flatMap(({ hasTenants, queueId }) => (hasTenants ? [queueId] : []))
  }
}
