import type { Database } from '../../postgres/database.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import type { Claim } from '../../store/claim.ts'
import { type Exchanged, exchange, MOST_BYTES, type Wish } from '../../store/exchange.ts'
import type { Exception } from '../../store/settle.ts'
import { type Load, takeLoad } from './load.ts'
import { type Travelling, takePieces } from './piece.ts'

/** Calls under way at once: while the server works on some, the handlers of the others' jobs run. */
export const MAX_CALLS = 4
/**
 * To claim in one call: so many jobs that what a call costs by itself is little for each. What is beyond the bytes of an answer
 * would have to be loaded by itself.
 */
const MOST_CLAIMED: Load = { jobs: 400, size: MOST_BYTES }

/** Hears what became of the outcomes of one call. */
export interface OutcomeListener {
  stored(pieces: readonly Travelling[], exceptions: readonly Exception[]): void
  /** It is unknown whether anything was stored where the connection failed; else nothing was. */
  failed(pieces: readonly Travelling[], error: unknown): void
}

interface Asked {
  readonly wish: Wish
  /** What may come of it. */
  readonly likely: Load
  resolve(claim: Claim): void
  reject(error: unknown): void
}

/** What one call carries. */
interface Parcel {
  readonly asked: Asked[]
  readonly told: Travelling[]
}

/**
 * Takes the slots' claims and outcomes to the server together: whatever gathers while calls are under way goes
 * with the next one, in one round trip and one commit. So the busier a process, the less a job costs it.
 */
export class Exchange {
  /** Of all that is settled. */
  listener: OutcomeListener | undefined
  readonly #database: Database
  /** By process id: a claim of somebody new doesn't go with outcomes of whom it was before. */
  readonly #waiting = new Map<number, Parcel>()
  #calls = 0
  #sending = false

  constructor(database: Database) {
    this.#database = database
  }

  /** Rejects where it is unknown whether anything was claimed. */
  claim(processId: number, wish: Wish, likely: Load): Promise<Claim> {
    return new Promise((resolve, reject) => {
      this.#parcel(processId).asked.push({ wish, likely, resolve, reject })
    })
  }

  /** The listener hears how that went. */
  settle(piece: Travelling): void {
    this.#parcel(piece.claimant.processId).told.push(piece)
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

  /** As much as one call may carry. Nothing is claimed while outcomes are left: where handlers are quick they would pile up. */
  #part(processId: number, { asked, told }: Parcel): Parcel {
    const part: Parcel = { told: takePieces(told), asked: [] }
    if (told.length === 0) part.asked.push(...takeLoad(asked, MOST_CLAIMED, ({ likely }) => likely))
    if (told.length + asked.length === 0) this.#waiting.delete(processId)
    return part
  }

  async #send(processId: number, parcel: Parcel): Promise<void> {
    const { asked, told } = parcel
    this.#calls += 1
    const wishes = asked.map(({ wish }) => wish)
    await exchange(this.#database, processId, told, wishes).then(
      (answer) => this.#answered(parcel, answer),
      (error) => this.#failed(processId, parcel, error),
    )
    this.#calls -= 1
    this.#sendSoon()
  }

  #answered({ asked, told }: Parcel, { exceptions, claims }: Exchanged): void {
    for (const [index, { resolve }] of asked.entries()) resolve(claims[index]!)
    if (told.length > 0) this.listener?.stored(told, exceptions)
  }

  async #failed(processId: number, { asked, told }: Parcel, error: unknown): Promise<void> {
    if (told.length > 0) this.listener?.failed(told, error)
    // One lane that can't be claimed must not keep the others from it.
    if (asked.length + told.length === 1 || isConnectionFailure(error)) {
      for (const { reject } of asked) reject(error)
    } else for (const one of asked) await this.#askAlone(processId, one)
  }

  async #askAlone(processId: number, { wish, resolve, reject }: Asked): Promise<void> {
    await exchange(this.#database, processId, [], [wish]).then(({ claims }) => resolve(claims[0]!), reject)
  }
}
