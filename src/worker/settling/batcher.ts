import type { Database } from '../../postgres/database.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import type { Claim } from '../../store/claim.ts'
import { type Exchanged, exchange, MOST_BYTES, type Wish } from '../../store/exchange.ts'
import type { Leftover } from '../../store/settle.ts'
import { type Load, limited, takeLoad } from './load.ts'
import { jobsOf, MOST_TOLD, payloadsOf, type Travelling, takePieces } from './piece.ts'

/** Concurrent calls: while the server works on some, handlers run for the jobs of the others. */
export const MAX_CALLS = 4
/**
 * Most to claim in one call. With so many jobs, the fixed cost of a call is small for each. Payloads beyond the bytes of an
 * answer would have to be loaded separately.
 */
const MOST_CLAIMED: Load = { jobs: 400, size: MOST_BYTES }
/** Most jobs whose outcomes a call may leave behind and still claim: as many as the other calls can take. */
const MOST_LEFT = (MAX_CALLS - 1) * MOST_TOLD.jobs
/** Most payloads to delete in a call that claims. More take some 50 ms and longer, while slots wait for their claims. */
const MOST_DELETED = 16_000

/**
 * With fewer jobs than this, a call waits while a quick one is under way: one that began in the last so many ms. With twice
 * as many, two calls share them if none is under way.
 */
const FEW_JOBS = 64
const QUICK = 4

/** Gets the results of the outcomes of one call. */
export interface OutcomeListener {
  stored(pieces: readonly Travelling[], leftovers: readonly Leftover[]): void
  /** If the connection failed, it is unknown whether anything was stored; otherwise nothing was. */
  failed(pieces: readonly Travelling[], error: unknown): void
}

interface PendingClaim {
  readonly wish: Wish
  /** What it is likely to bring. */
  readonly likely: Load
  resolve(claim: Claim): void
  reject(error: unknown): void
}

/** What waits for a call, or goes with one. */
interface Pending {
  readonly claims: PendingClaim[]
  readonly outcomes: Travelling[]
}

/**
 * Takes the slots' claims and outcomes to the server together. Whatever gathers while calls are under way goes with the
 * next one, in one round trip and one commit. So the busier a process is, the less a job costs it.
 */
export class Batcher {
  /** Gets the results of everything that is settled. */
  listener: OutcomeListener | undefined
  readonly #database: Database
  /** By process id: a claim under a new registration doesn't go with outcomes of the one before. */
  readonly #waiting = new Map<number, Pending>()
  #calls = 0
  /** Of those, the ones that are still quick: by the timer that ends that. */
  readonly #quickCalls = new Set<NodeJS.Timeout>()
  #sending = false

  constructor(database: Database) {
    this.#database = database
  }

  /** Rejects if the claim failed. If the connection failed, it is unknown whether anything was claimed. */
  claim(processId: number, wish: Wish, likely: Load): Promise<Claim> {
    return new Promise((resolve, reject) => {
      this.#pendingOf(processId).claims.push({ wish, likely, resolve, reject })
      this.#sendSoon()
    })
  }

  /** The listener gets the result. */
  settle(piece: Travelling): void {
    this.#pendingOf(piece.claimant.processId).outcomes.push(piece)
    this.#sendSoon()
  }

  #pendingOf(processId: number): Pending {
    let pending = this.#waiting.get(processId)
    if (!pending) {
      pending = { claims: [], outcomes: [] }
      this.#waiting.set(processId, pending)
    }
    return pending
  }

  /**
   * Sends what is handed in during this turn of the event loop; or, if that would be a small call beside a quick one, leaves
   * it until that one ends or becomes slow: a call has a cost of its own, however few jobs it carries. Nothing waits for a
   * slow call, because what holds it up may do so for seconds.
   */
  #sendSoon(): void {
    if (this.#sending || this.#calls >= MAX_CALLS || this.#waiting.size === 0) return
    if (this.#quickCalls.size > 0 && this.#jobsWaiting < FEW_JOBS) return
    this.#sending = true
    setImmediate(() => {
      this.#sending = false
      for (const [processId, pending] of this.#waiting) {
        while (this.#calls < MAX_CALLS && this.#waiting.has(processId)) {
          void this.#send(processId, this.#part(processId, pending))
        }
      }
    })
  }

  /** Outcomes, and what claims are likely to bring. */
  get #jobsWaiting(): number {
    let jobs = 0
    for (const { claims, outcomes } of this.#waiting.values()) jobs += jobsOf(outcomes) + likelyOf(claims)
    return jobs
  }

  /**
   * As much as one call may carry. Nothing is claimed while many outcomes are left: handlers that are quicker than the server
   * would run ever further ahead of what is stored. While few are left, claiming with them saves calls, unless they have so
   * many payloads that claims are sooner answered by a call of their own.
   *
   * If no call is under way, half of many: after one call with everything, client and server would take turns, since all
   * slots wait for its answer. So handlers run for one half while the server works on the other.
   */
  #part(processId: number, { claims, outcomes }: Pending): Pending {
    const claimed = limited(MOST_CLAIMED, this.#share(likelyOf(claims)))
    const part: Pending = { outcomes: takePieces(outcomes, this.#share(jobsOf(outcomes))), claims: [] }
    if (jobsOf(outcomes) <= MOST_LEFT && payloadsOf(part.outcomes) <= MOST_DELETED)
      part.claims.push(...takeLoad(claims, claimed, ({ likely }) => likely))
    if (outcomes.length + claims.length === 0) this.#waiting.delete(processId)
    return part
  }

  /** How many of the jobs that wait may go with the next call. */
  #share(jobs: number): number {
    return this.#calls > 0 || jobs < 2 * FEW_JOBS ? jobs : Math.ceil(jobs / 2)
  }

  async #send(processId: number, pending: Pending): Promise<void> {
    const { claims, outcomes } = pending
    this.#calls += 1
    const quick = setTimeout(() => this.#noLongerQuick(quick), QUICK)
    this.#quickCalls.add(quick)
    const wishes = claims.map(({ wish }) => wish)
    await exchange(this.#database, processId, outcomes, wishes).then(
      (answer) => this.#answered(pending, answer),
      (error) => this.#failed(processId, pending, error),
    )
    clearTimeout(quick)
    this.#calls -= 1
    this.#noLongerQuick(quick)
  }

  #noLongerQuick(call: NodeJS.Timeout): void {
    this.#quickCalls.delete(call)
    this.#sendSoon()
  }

  #answered({ claims, outcomes }: Pending, { leftovers, claims: answers }: Exchanged): void {
    for (const [index, { resolve }] of claims.entries()) resolve(answers[index]!)
    if (outcomes.length > 0) this.listener?.stored(outcomes, leftovers)
  }

  async #failed(processId: number, { claims, outcomes }: Pending, error: unknown): Promise<void> {
    if (outcomes.length > 0) this.listener?.failed(outcomes, error)
    // One lane that can't be claimed must not keep the others from being claimed.
    if (claims.length + outcomes.length === 1 || isConnectionFailure(error)) {
      for (const { reject } of claims) reject(error)
    } else for (const claim of claims) await this.#claimAlone(processId, claim)
  }

  async #claimAlone(processId: number, { wish, resolve, reject }: PendingClaim): Promise<void> {
    await exchange(this.#database, processId, [], [wish]).then(({ claims }) => resolve(claims[0]!), reject)
  }
}

/** How many jobs the claims are likely to bring. */
function likelyOf(claims: readonly PendingClaim[]): number {
  return claims.reduce((sum, { likely }) => sum + likely.jobs, 0)
}
