import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError, LockstepError } from '../errors.ts'
import { isRefusedLock } from '../postgres/failure.ts'
import { SHORT_WAIT } from '../store/push.ts'

/** ms after which no other try begins. */
export const PATIENCE = 5_000
/** ms between tries, doubled from the first to the last. */
const [FIRST_PAUSE, LAST_PAUSE] = [25, 200]
/** Pushes that may wait at once for rows of open transactions, each with a connection. */
const MOST_WAITING = 3

/**
 * Repeats pushes while somebody's open transaction holds one of their rows. A few wait in the server's line. Others try again and
 * again, and have no connection in between: if each waited with its own, some pushes of one id would have all of the pool, and nobody
 * else could push until that transaction ends.
 */
export class Insistence {
  #waiting = 0

  /**
   * `attempt` waits so many ms for a row, and then fails with the server's 55P03. `until`: when patience ends, in ms of the
   * monotonic clock, for a caller that has waited before.
   * @throws DatabaseError `LOCKSTEP_LOCKED`
   */
  async insist<T>(
    attempt: (longestWait: number) => Promise<T>,
    until = performance.now() + PATIENCE,
  ): Promise<T> {
    let longestWait = SHORT_WAIT
    for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LAST_PAUSE)) {
      try {
        return await this.#try(attempt, longestWait)
      } catch (error) {
        // What has a meaning of its own, such as a key in use, has waited long enough.
        if (error instanceof LockstepError || !isRefusedLock(error)) throw error
        if (performance.now() + pause > until) throw locked(error)
      }
      await sleep(pause)
      const left = Math.ceil(until - performance.now())
      longestWait = this.#waiting < MOST_WAITING ? Math.max(left, SHORT_WAIT) : SHORT_WAIT
    }
  }

  async #try<T>(attempt: (longestWait: number) => Promise<T>, longestWait: number): Promise<T> {
    if (longestWait <= SHORT_WAIT) return attempt(longestWait)
    this.#waiting += 1
    try {
      return await attempt(longestWait)
    } finally {
      this.#waiting -= 1
    }
  }
}

function locked(cause: unknown): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    'a transaction that has pushed the id is still open: end it, or push again later',
    { cause },
  )
}
