import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import { type PushedJob, pushTogether } from '../store/push.ts'

/** Pushes under way at once, before others gather. */
const MAX_PUSHES = 2
/** ms after which one counts as held up, by somebody's open transaction: others no longer wait for it. */
const HELD_UP = 20
const MAX_JOBS = 100
const MAX_CHARACTERS = 100_000

/** What one call of a producer pushes. */
export interface Push {
  readonly queue: string
  readonly jobs: readonly PushedJob[]
  /** Pushes it by itself. */
  alone(): Promise<void>
}

interface Waiting extends Push {
  resolve(): void
  reject(error: unknown): void
}

/**
 * Takes pushes that come while others are under way to the server together: one round trip and one commit for what
 * would have queued up for both. Every caller still gets an answer of its own, and where what went together is refused,
 * or waits for a row, each goes alone, so that nobody's error and nobody's open transaction is another one's.
 */
export class PushBatcher {
  readonly #database: Database
  #waiting: Waiting[] = []
  #underWay = 0

  constructor(database: Database) {
    this.#database = database
  }

  push(push: Push): Promise<void> {
    // A bulk has a commit to itself, and nobody waits for it.
    if (push.jobs.length > MAX_JOBS) return push.alone()
    if (this.#underWay < MAX_PUSHES) return this.#follow(push.alone())
    return new Promise((resolve, reject) => this.#waiting.push({ ...push, resolve, reject }))
  }

  #follow(pushing: Promise<void>): Promise<void> {
    this.#underWay += 1
    let counts = true
    const over = () => {
      clearTimeout(timer)
      if (!counts) return
      counts = false
      this.#underWay -= 1
      this.#next()
    }
    const timer = setTimeout(over, HELD_UP)
    pushing.then(over, over)
    return pushing
  }

  #next(): void {
    while (this.#waiting.length > 0 && this.#underWay < MAX_PUSHES)
      void this.#follow(this.#send(this.#take()))
  }

  /** The oldest, and what may go with it. */
  #take(): Waiting[] {
    const { queue } = this.#waiting[0]!
    const taken: Waiting[] = []
    let [jobs, characters] = [0, 0]
    this.#waiting = this.#waiting.filter((push) => {
      const more = push.jobs.reduce((sum, { payload }) => sum + payload.length, 0)
      const fits = jobs + push.jobs.length <= MAX_JOBS && characters + more <= MAX_CHARACTERS
      if (taken.length > 0 && !(fits && push.queue === queue)) return true
      taken.push(push)
      jobs += push.jobs.length
      characters += more
      return false
    })
    return taken
  }

  async #send(pushes: readonly Waiting[]): Promise<void> {
    if (pushes.length === 1) return settle(pushes[0]!, pushes[0]!.alone())
    try {
      await pushTogether(
        this.#database,
        pushes[0]!.queue,
        pushes.flatMap(({ jobs }) => jobs),
      )
      for (const { resolve } of pushes) resolve()
    } catch (error) {
      // Whether it was stored, nobody knows: to push it again is the caller's decision.
      if (isConnectionFailure(error)) for (const { reject } of pushes) reject(error)
      else await Promise.all(pushes.map((push) => settle(push, push.alone())))
    }
  }
}

function settle({ resolve, reject }: Waiting, pushed: Promise<void>): Promise<void> {
  return pushed.then(resolve, reject)
}
