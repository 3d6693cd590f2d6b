import type pg from 'pg'
import type { Database } from '../postgres/database.ts'
import { isOutOfTime } from '../postgres/failure.ts'

/** ms that a call waits for rows that open transactions hold, in all. */
export const PATIENCE = 5_000
/** ms that a first try waits for a lock. The server has nothing shorter, but for none at all, which would be for ever. */
export const AT_ONCE = 1
/** Most turns at once, each with a connection; in a small pool half of its connections. */
const MOST_TURNS = 4
/** ms of a turn: the more rows are waited for, the shorter it is, so that the turn of each comes soon. */
const [LONGEST_TURN, SHORTEST_TURN] = [250, 20]
/** ms that turns for all rows take together, one after the other. */
const ROUND = 1_000

/** Tries something, and waits so many ms for a lock at most. Then the server refuses it, and nothing was done. */
export type Attempt<T> = (longestWait: number) => Promise<T>

export interface Waiting {
  /** Names the row that is waited for; undefined: one of several. */
  readonly row: string | undefined
  /** When patience ends, by the monotonic clock. */
  readonly until: number
  /** What to reject with then. `cause`: the last refusal, if there was one. */
  refusal(cause: unknown): Error
  /** Ends the waiting, and rejects with its reason. A try that is under way goes on. */
  readonly signal?: AbortSignal | undefined
}

interface Caller {
  readonly key: unknown
  readonly until: number
  /** With how many ms its turn has; with none if its patience has ended. */
  begin(ms?: number): void
}

/**
 * Repeats calls while somebody's open transaction holds a row of theirs. In between they have no connection: they stand in a line for
 * their next turn, and a few have one at once. If each waited with its own, those for some rows would have all of the pool, and nobody
 * else could do anything until that transaction ends. Callers for one row have their turns one after the other.
 */
export class Insistence {
  readonly #pool: pg.Pool
  readonly #line = new Set<Caller>()
  /** Callers that wait, by what they wait for. */
  readonly #waiting = new Map<unknown, number>()
  /** Rows that were refused when somebody last tried. */
  readonly #held = new Set<unknown>()
  readonly #turns = new Set<unknown>()
  #longTurns = 0

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  /** Whether somebody waits for this row, and found it held. */
  isHeld(row: string): boolean {
    return this.#held.has(row)
  }

  /** Tries at once, unless the row is known to be held, and then waits. */
  async insist<T>(attempt: Attempt<T>, waiting: Waiting): Promise<T> {
    if (waiting.row !== undefined && this.isHeld(waiting.row)) return this.wait(attempt, waiting)
    try {
      return await attempt(AT_ONCE)
    } catch (error) {
      if (!isOutOfTime(error)) throw error
      return this.wait(attempt, waiting, error)
    }
  }

  /** For what was refused before: begins with a turn in line. */
  async wait<T>(
    attempt: Attempt<T>,
    { row, until, refusal, signal }: Waiting,
    refused?: unknown,
  ): Promise<T> {
    const key = row ?? Symbol()
    this.#waiting.set(key, (this.#waiting.get(key) ?? 0) + 1)
    this.#held.add(key)
    try {
      let cause = refused
      for (;;) {
        const longestWait = await this.#turn(key, until, signal)
        if (longestWait === undefined) {
          signal?.throwIfAborted()
          throw refusal(cause)
        }
        try {
          return await this.#take(key, () => attempt(longestWait), longestWait)
        } catch (error) {
          if (!isOutOfTime(error)) throw error
          this.#held.add(key)
          cause = error
        }
      }
    } finally {
      this.#leave(key)
    }
  }

  /** Resolves to its ms, or to undefined when patience has ended, or nobody waits any more. */
  #turn(key: unknown, until: number, signal: AbortSignal | undefined): Promise<number | undefined> {
    if (performance.now() >= until || signal?.aborted) return Promise.resolve(undefined)
    return new Promise((resolve) => {
      const begin = (ms?: number) => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', giveUp)
        this.#line.delete(caller)
        resolve(ms)
      }
      const giveUp = () => begin()
      const timer = setTimeout(giveUp, until - performance.now())
      signal?.addEventListener('abort', giveUp)
      const caller = { key, until, begin }
      this.#line.add(caller)
      this.#next()
    })
  }

  async #take<T>(key: unknown, attempt: () => Promise<T>, ms: number): Promise<T> {
    const isLong = ms > LONGEST_TURN
    try {
      const result = await attempt()
      this.#held.delete(key)
      return result
    } finally {
      this.#turns.delete(key)
      if (isLong) this.#longTurns -= 1
      this.#next()
    }
  }

  #leave(key: unknown): void {
    const others = this.#waiting.get(key)! - 1
    if (others > 0) this.#waiting.set(key, others)
    else {
      this.#waiting.delete(key)
      this.#held.delete(key)
    }
  }

  #next(): void {
    for (const caller of this.#line) {
      if (this.#turns.size >= this.#most) return
      if (this.#turns.has(caller.key)) continue
      const ms = this.#msFor(caller)
      this.#turns.add(caller.key)
      if (ms > LONGEST_TURN) this.#longTurns += 1
      caller.begin(ms)
    }
  }

  /**
   * Some wait to the end of their patience, in the server's line: a row that others lock again and again may never be free otherwise.
   * Not those for several rows: what they have locked already, nobody else has meanwhile.
   */
  #msFor({ key, until }: Caller): number {
    const left = Math.max(1, Math.ceil(until - performance.now()))
    if (typeof key === 'string' && this.#longTurns < this.#most >> 1) return left
    const share = Math.floor(ROUND / this.#waiting.size)
    return Math.min(left, LONGEST_TURN, Math.max(SHORTEST_TURN, share))
  }

  get #most(): number {
    const { max = Number.POSITIVE_INFINITY } = this.#pool.options
    return Math.max(1, Math.min(MOST_TURNS, Math.floor(max / 2)))
  }
}

/** The row of a job, for whoever waits for it. */
export function rowOf(queue: string, id: string): string {
  return JSON.stringify([queue, id])
}

const byPool = new WeakMap<pg.Pool, Insistence>()

/** All that wait on the connections of a pool do so together. */
export function insistenceOf({ pool }: Pick<Database, 'pool'>): Insistence {
  let insistence = byPool.get(pool)
  if (!insistence) {
    insistence = new Insistence(pool)
    byPool.set(pool, insistence)
  }
  return insistence
}
