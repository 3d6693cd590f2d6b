import type { Database } from '../../postgres/database.ts'
import { trimAudit } from '../../store/audit.ts'
import { trimMinutes } from '../../store/counter.ts'
import { trimKeys } from '../../store/keys.ts'
import { trimLimits } from '../../store/limits.ts'
import { MOST_REPLY_QUEUES, trimReplyQueues } from '../../store/reply-queues.ts'
import { trimResults } from '../../store/results.ts'
import { trimTenants } from '../../store/tenants.ts'
import type { Maintenance } from './maintenance.ts'

/** ms between runs, and after one that has left something. */
const [TEN_MINUTES, SOON] = [600_000, 10_000]
/** ms that a run may go on while there is more. */
const LONGEST = 1_000
/** What a call deletes at most. */
const CHUNK = 10_000

/**
 * Deletes data that is kept for a limited time: counts by minute, the audit, what tenants have pushed, what limits have
 * counted, idempotency keys, results, and queues that synchronous tasks have left behind.
 */
export class Trimming implements Maintenance {
  readonly name = 'trimming'
  #hasLeft = false

  get every(): number {
    return this.#hasLeft ? SOON : TEN_MINUTES
  }

  async run(database: Database): Promise<object | undefined> {
    const until = performance.now() + LONGEST
    const all = { minutes: 0, audit: 0, tenants: 0, limits: 0, keys: 0, results: 0, replyQueues: 0 }
    do {
      const counts = {
        minutes: await trimMinutes(database),
        audit: await trimAudit(database),
        tenants: await trimTenants(database),
        limits: await trimLimits(database),
        keys: await trimKeys(database),
        results: await trimResults(database),
        replyQueues: await trimReplyQueues(database),
      }
      for (const kind of Object.keys(all) as (keyof typeof all)[]) all[kind] += counts[kind]
      const { replyQueues, ...others } = counts
      this.#hasLeft =
        replyQueues >= MOST_REPLY_QUEUES || Object.values(others).some((count) => count >= CHUNK)
    } while (this.#hasLeft && performance.now() < until)
    return Object.values(all).some((count) => count > 0) ? all : undefined
  }
}
