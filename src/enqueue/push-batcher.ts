import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import { charactersOf, type PushedJob, pushWithin, SHORT_WAIT } from '../store/push.ts'

/** Pushes that may be under way at once; further ones gather. */
const MAX_PUSHES = 2
/** ms after which a push counts as held up by an open transaction, and others no longer wait for it. */
const HELD_UP = 20
const MAX_JOBS = 100
const MAX_CHARACTERS = 100_000

/** The push of one call of a producer. */
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
 * Sends pushes that arrive while others are under way together, in one round trip and one commit. Every caller still gets
 * its own answer. If the joint push is refused or has to wait for a row, each push is sent alone, so that no caller gets
 * another one's error or waits for another one's row.
 */
export class PushBatcher {
  readonly #database: Database
  #waiting: Waiting[] = []
  #underWay = 0

  constructor(database: Database) {
    this.#database = database
  }

  push(push: Push): Promise<void> {
    // A bulk push has its own commit, and no other push waits for it.
    if (push.jobs.length > MAX_JOBS) return push.alone()
    if (this.#underWay < MAX_PUSHES) return this.#follow(push.alone())
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject, ...push }))
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

  /** The oldest push, and others that may go with it. */
  #take(): Waiting[] {
    const { queue } = this.#waiting[0]!
    const taken: Waiting[] = []
    let [jobs, characters] = [0, 0]
    this.#waiting = this.#waiting.filter((push) => {
      const more = push.jobs.reduce((sum, job) => sum + charactersOf(job), 0)
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
      await pushWithin(
        this.#database,
        SHORT_WAIT,
        pushes[0]!.queue,
        pushes.flatMap(({ jobs }) => jobs),
      )
      for (const { resolve } of pushes) resolve()
    } catch (error) {
      // No one knows whether it was stored, so only the caller can decide to push again.
      if (isConnectionFailure(error)) for (const { reject } of pushes) reject(error)
      else await Promise.all(pushes.map((push) => settle(push, push.alone())))
    }
  }
}

function settle({ resolve, reject }: Waiting, pushed: Promise<void>): Promise<void> {
  return pushed.then(resolve, reject)
}
