import type { Instruments } from '../../instruments.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { type ThrottledTenant, throttledTenants } from '../../store/tenants.ts'
import type { Led, LedQueue, Maintenance } from './maintenance.ts'

/** ms that a transaction may stay open after its pushes, and be seen nonetheless by the next look. */
const LATE = 20_000

export interface ThrottledOptions extends Led {
  readonly logger: Logger
  readonly instruments: Instruments
}

/** ms of pushes that the first look at a queue takes: the whole window may have millions. */
const FIRST = 60_000

/** What is known of a queue. */
interface Known {
  /** ms of the monotonic clock. */
  readonly lookedAt: number
  /** By name, with their lanes. */
  readonly tenants: ReadonlyMap<string, number>
}

/**
 * Tells when rules of queues begin and end to send what a tenant pushes to another lane. Of several workers, the one that holds the
 * queue's first shard tells it.
 */
export class Throttled implements Maintenance {
  readonly name = 'throttled'
  readonly every = 10_000
  readonly #options: ThrottledOptions
  readonly #known = new Map<number, Known>()

  constructor(options: ThrottledOptions) {
    this.#options = options
  }

  isDue(): boolean {
    return this.#queues().length > 0
  }

  async run(database: Database): Promise<undefined> {
    const queues = this.#queues()
    const queueIds = queues.map(({ queueId }) => queueId)
    for (const queueId of this.#known.keys()) if (!queueIds.includes(queueId)) this.#known.delete(queueId)
    const lookedAt = performance.now()
    const found = await throttledTenants(database, queueIds, this.#span(queues), this.#tenants())
    for (const served of queues) {
      const tenants = new Map(
        found.flatMap(({ queueId, tenant, lane }) => (queueId === served.queueId ? [[tenant, lane]] : [])),
      )
      this.#compare(served.queue.name, this.#known.get(served.queueId)?.tenants ?? new Map(), tenants)
      this.#known.set(served.queueId, { lookedAt, tenants })
    }
  }

  #queues(): LedQueue[] {
    return this.#options.ledQueues().filter(({ queue }) => queue.fairness !== undefined)
  }

  /** ms for which pushes have to be looked at, to see all that are new since the last look. */
  #span(queues: readonly LedQueue[]): number {
    const spans = queues.map(({ queueId }) => {
      const known = this.#known.get(queueId)
      return known ? performance.now() - known.lookedAt + LATE : FIRST
    })
    return Math.max(...spans)
  }

  #tenants(): ThrottledTenant[] {
    return [...this.#known].flatMap(([queueId, { tenants }]) =>
      [...tenants].map(([tenant, lane]) => ({ queueId, tenant, lane })),
    )
  }

  #compare(queue: string, before: ReadonlyMap<string, number>, now: ReadonlyMap<string, number>): void {
    const { logger, instruments } = this.#options
    for (const [tenant, lane] of before) {
      if (now.get(tenant) === lane) continue
      logger.info(
        { event: 'unthrottled', queue, tenant, lane },
        'a rule no longer sends a tenant’s jobs to its lane',
      )
      instruments.tell('unthrottle', { queue, tenant, lane })
    }
    for (const [tenant, lane] of now) {
      if (before.get(tenant) === lane) continue
      logger.info({ event: 'throttled', queue, tenant, lane }, 'a rule sends a tenant’s jobs to its lane')
      instruments.tell('throttle', { queue, tenant, until: null, lane })
    }
  }
}
