import { LockstepError } from '../errors.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { settlesWithin } from '../promises.ts'
import { AT_ONCE, type Insistence, type Waiting } from '../store/insistence.ts'
import { type IdempotencyKey, noteKey, recountKey } from '../store/keys.ts'
import { waitingAtMost } from '../store/patience.ts'

const KEY_IN_USE = 'LOCKSTEP_KEY_IN_USE'

/** How a push with a key has ended. */
export interface PushedOnce {
  /** How many jobs were stored, by this push or by the one before it. */
  readonly stored: number
  /** An earlier push with the key has stored them. */
  readonly isRepeated: boolean
}

/**
 * Pushes that name an idempotency key. Key and jobs are stored in one transaction, so after whatever failure either both are
 * there or neither; a caller who got no answer sends the same again.
 */
export class PushesOnce {
  readonly #database: Database
  readonly #insistence: Insistence
  /** By holder and key. Who waits here for the same key takes no connection from others. */
  readonly #underWay = new Map<string, Promise<unknown>>()

  constructor(database: Database, insistence: Insistence) {
    this.#database = database
    this.#insistence = insistence
  }

  /**
   * `push` stores the jobs in the transaction that it's given, `count` of them unless a middleware changes that.
   * @throws LockstepError `LOCKSTEP_KEY_REUSED` if the key was used for something else, `LOCKSTEP_KEY_IN_USE` if a push with it
   * is under way for more than five seconds; DatabaseError `LOCKSTEP_LOCKED` if a transaction that has pushed one of
   * the ids stays open for so long
   */
  async push(
    key: IdempotencyKey,
    count: number,
    push: (tx: Queryable) => Promise<number>,
    waiting: Waiting,
  ): Promise<PushedOnce> {
    const name = JSON.stringify([key.holder, key.key])
    for (let before = this.#underWay.get(name); before; before = this.#underWay.get(name))
      await waitFor(before, waiting.until)
    const attempt = (longestWait: number) => this.#push(key, count, push, longestWait)
    const pushing = this.#insistence.insist(attempt, waiting)
    this.#underWay.set(name, pushing)
    try {
      return await pushing
    } finally {
      this.#underWay.delete(name)
    }
  }

  #push(
    key: IdempotencyKey,
    count: number,
    push: (tx: Queryable) => Promise<number>,
    longestWait: number,
  ): Promise<PushedOnce> {
    const work = async (tx: Queryable) => {
      const begun = performance.now()
      const noted = await noteKey(this.#database, key, count, tx).catch((error) => {
        throw hasCode(error, '55P03') ? inUse(error) : error
      })
      if (noted && !noted.digest.equals(key.digest)) throw reused()
      if (noted) return { stored: noted.stored, isRepeated: true }
      await this.#shorten(longestWait, performance.now() - begun, tx)
      const stored = await push(tx)
      if (stored !== count) await recountKey(this.#database, key, stored, tx)
      return { stored, isRepeated: false }
    }
    return this.#database.transaction(work, { begin: waitingAtMost(longestWait) })
  }

  /** Whoever has waited for the key waits less for rows: the server counts for each lock anew. */
  async #shorten(longestWait: number, waited: number, tx: Queryable): Promise<void> {
    if (longestWait <= AT_ONCE || waited < longestWait / 2) return
    const left = Math.max(1, Math.ceil(longestWait - waited))
    await this.#database.query(waitingAtMost(left), [], tx)
  }
}

/** Until a push with the same key has ended. One that has waited for another process in vain has done so for us, too. */
async function waitFor(before: Promise<unknown>, until: number): Promise<void> {
  if (!(await settlesWithin(before, until - performance.now()))) throw inUse()
  await before.catch((error) => {
    if (error instanceof LockstepError && error.code === KEY_IN_USE) throw error
  })
}

function reused(): LockstepError {
  return new LockstepError(
    'LOCKSTEP_KEY_REUSED',
    'the idempotency key was used for other jobs in the last 24 hours: give each request a key of its own',
  )
}

function inUse(cause?: unknown): LockstepError {
  return new LockstepError(
    KEY_IN_USE,
    'a request with this idempotency key is still under way: send it again later, to get the answer',
    { cause },
  )
}
