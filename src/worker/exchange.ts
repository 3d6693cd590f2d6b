import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import type { Claim, Round } from '../store/claim.ts'
import { type DoneRound, exchange, MOST_BYTES, type Wish } from '../store/exchange.ts'
import { type Exception, exceptionsOf } from '../store/settle.ts'

/** Calls under way at once: while the server works on some, the handlers of the others' jobs run. */
export const MAX_CALLS = 4
/** Jobs to complete, and jobs to claim, that go in one call: enough that what a call costs by itself is little for each. */
const MAX_JOBS = 400

interface Deferred<T> {
  resolve(value: T): void
  reject(error: unknown): void
}

interface Asked extends Deferred<Claim> {
  readonly wish: Wish
  readonly likely: Likely
}

interface Told extends Deferred<readonly Exception[]> {
  readonly queueId: number
  readonly rounds: readonly Round[]
}

/** What may come of a wish. */
export interface Likely {
  readonly jobs: number
  /** Characters of their payloads. */
  readonly size: number
}

/** What one call carries. */
interface Parcel {
  readonly asked: Asked[]
  readonly told: Told[]
}

/**
 * Takes the slots' claims and completions to the server together: whatever gathers while calls are under way goes
 * with the next one, in one round trip and one commit. So the busier a process, the less a job costs it.
 */
export class Exchange {
  readonly #database: Database
  /** By process id: a claim of somebody new doesn't go with completions of whom it was before. */
  readonly #waiting = new Map<number, Parcel>()
  #calls = 0
  #sending = false

  constructor(database: Database) {
    this.#database = database
  }

  /** Rejects where it is unknown whether anything was claimed. */
  claim(processId: number, wish: Wish, likely: Likely): Promise<Claim> {
    return new Promise((resolve, reject) => {
      this.#parcel(processId).asked.push({ wish, likely, resolve, reject })
    })
  }

  /** Resolves to the exceptions. Rejects where it is unknown whether anything was stored. */
  complete(processId: number, queueId: number, rounds: readonly Round[]): Promise<readonly Exception[]> {
    return new Promise((resolve, reject) => {
      this.#parcel(processId).told.push({ queueId, rounds, resolve, reject })
    })
  }

  #parcel(processId: number): Parcel {
    let parcel = this.#waiting.get(processId)
    if (!parcel) {
      parcel = { asked: [], told: [] }
      this.#waiting.set(processId, parcel)
    }
    this.#sendSoon()
    return parcel
  }

  /** After all that is said in this turn of the event loop. */
  #sendSoon(): void {
    if (this.#sending || this.#calls >= MAX_CALLS || this.#waiting.size === 0) return
    this.#sending = true
    setImmediate(() => {
      this.#sending = false
      for (const [processId, parcel] of this.#waiting) {
        while (this.#calls < MAX_CALLS && this.#waiting.has(processId)) {
          void this.#send(processId, this.#part(processId, parcel))
        }
      }
    })
  }

  /** As much as one call may carry. */
  #part(processId: number, { asked, told }: Parcel): Parcel {
    const part: Parcel = { asked: [], told: [] }
    let jobs = 0
    for (; told.length > 0 && jobs < MAX_JOBS; part.told.push(told.shift()!)) jobs += told[0]!.rounds.length
    jobs = 0
    // What is beyond the bytes of an answer would have to be loaded by itself.
    for (let size = 0; asked.length > 0 && jobs < MAX_JOBS && size < MOST_BYTES; ) {
      const one = asked.shift()!
      jobs += one.likely.jobs
      size += one.likely.size
      part.asked.push(one)
    }
    if (told.length + asked.length === 0) this.#waiting.delete(processId)
    return part
  }

  async #send(processId: number, { asked, told }: Parcel): Promise<void> {
    this.#calls += 1
    try {
      const done = told.flatMap(({ queueId, rounds }) =>
        rounds.map((round): DoneRound => ({ queueId, round })),
      )
      const wishes = asked.map(({ wish }) => wish)
      const { exceptions, claims } = await exchange(this.#database, processId, done, wishes)
      for (const one of told) one.resolve(exceptionsOf(exceptions, one.queueId, one.rounds))
      for (const [index, { resolve }] of asked.entries()) resolve(claims[index]!)
    } catch (error) {
      for (const { reject } of told) reject(error)
      // One lane that can't be claimed must not keep the others from it.
      if (asked.length + told.length === 1 || isConnectionFailure(error)) {
        for (const { reject } of asked) reject(error)
      } else for (const one of asked) await this.#askAlone(processId, one)
    } finally {
      this.#calls -= 1
      this.#sendSoon()
    }
  }

  async #askAlone(processId: number, { wish, resolve, reject }: Asked): Promise<void> {
    await exchange(this.#database, processId, [], [wish]).then(({ claims }) => resolve(claims[0]!), reject)
  }
}
