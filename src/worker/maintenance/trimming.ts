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
/** What most calls delete at most. */
const CHUNK = 10_000

/** By the names that the log has. A call that has deleted as much as it may has left something. */
const KINDS: readonly {
  readonly name: string
  readonly most: number
  trim(database: Database): Promise<number>
}[] = [
  { name: 'minutes', most: CHUNK, trim: trimMinutes },
  { name: 'audit', most: CHUNK, trim: trimAudit },
  { name: 'tenants', most: CHUNK, trim: trimTenants },
  { name: 'limits', most: CHUNK, trim: trimLimits },
  { name: 'keys', most: CHUNK, trim: trimKeys },
  { name: 'results', most: CHUNK, trim: trimResults },
  { name: 'replyQueues', most: MOST_REPLY_QUEUES, trim: trimReplyQueues },
]

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
    const all: Record<string, number> = {}
    do {
      let hasLeft = false
      for (const { name, most, trim } of KINDS) {
        const count = await trim(database)
        all[name] = (all[name] ?? 0) + count
        hasLeft ||= count >= most
      }
      this.#hasLeft = hasLeft
    } while (this.#hasLeft && performance.now() < until)
    return Object.values(all).some((count) => count > 0) ? all : undefined
  }
}
