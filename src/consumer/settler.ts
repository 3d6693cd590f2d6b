import { DatabaseError } from '../errors.ts'
import { Gathered } from '../gathered.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { isBadValue } from '../postgres/failure.ts'
import type { Queue } from '../queue.ts'
import type { Round } from '../store/claim.ts'
import { type Insistence, insistenceOf, PATIENCE } from '../store/insistence.ts'
import {
  answerLeased,
  type ClaimKey,
  extendLeases,
  type HeldRound,
  heldRounds,
  type LeasedEnd,
  settleLeased,
} from '../store/leases.ts'
import { waitingAtMost } from '../store/patience.ts'
import type { KeptResult } from '../store/results.ts'
import type { Failure, Leftover } from '../store/settle.ts'
import { tellHeads } from '../store/wake.ts'
import type { Describe } from '../worker/performing/description.ts'
import { failure } from '../worker/performing/ending.ts'

/** Most claims to settle in one call. */
const MOST_SETTLED = 400
/** The same where each has a result, of up to 1 MiB. */
const MOST_RESULTS = 50

/** How a claim ends, and why if it didn't succeed. */
interface Ending {
  readonly claim: ClaimKey
  readonly failure?: Failure | undefined
  /** Nobody was handed it, since nothing was left of it. */
  readonly isExpired?: boolean
  /** Payloads that were left out of it. */
  readonly expired?: number
  readonly kept?: KeptResult | undefined
}

export interface SettlerOptions {
  readonly database: Database
  readonly describe: Describe
  readonly triesHeader: string | undefined
  /** A row of a producer's open transaction is waited for so many ms at most. */
  lockTimeout(): number
  /** Jobs wait again. */
  onAgain(leftovers: readonly Leftover[]): void
  onEnded(queueId: number, failed: boolean): void
  /** A claim has ended, whoever had it: limits may have a place. */
  onFreed(queueId: number): void
  /** So many payloads had been left out of a round, and are gone with it. */
  onExpired(queueId: number, payloads: number): void
}

/** Settles claims, also those of other processes. Each method resolves to false if the claim was lost: nothing has changed. */
export class Settler {
  readonly #options: SettlerOptions
  readonly #insistence: Insistence
  readonly #ends: Readonly<Record<LeasedEnd, Gathered<Ending, Leftover['outcome'] | undefined>>>
  readonly #rounds: Gathered<ClaimKey, HeldRound | undefined>
  readonly #extensions = new Map<number, Gathered<ClaimKey, boolean>>()

  constructor(options: SettlerOptions) {
    this.#options = options
    this.#insistence = insistenceOf(options.database)
    const gathered = (end: LeasedEnd, most = MOST_SETTLED) =>
      new Gathered<Ending, Leftover['outcome'] | undefined>(
        (all) => this.#send(end, all),
        most,
        ({ claim }) => nameOf(claim),
        isBadValue,
      )
    this.#rounds = new Gathered<ClaimKey, HeldRound | undefined>(
      (claims) => this.#held(claims),
      MOST_SETTLED,
      undefined,
      isBadValue,
    )
    this.#ends = {
      complete: gathered('complete'),
      answer: gathered('answer', MOST_RESULTS),
      fail: gathered('fail'),
      discard: gathered('discard'),
      release: gathered('release'),
    }
  }

  /** `expired`: payloads that had expired, and were left out. `kept`: a result to be kept. */
  complete(claim: ClaimKey, expired = 0, kept?: KeptResult): Promise<boolean> {
    return this.#settle(kept ? 'answer' : 'complete', { claim, expired, kept })
  }

  /** Ends a claim of which nothing was left. */
  expire(claim: ClaimKey, expired: number): Promise<boolean> {
    return this.#settle('complete', { claim, expired, isExpired: true })
  }

  release(claim: ClaimKey): Promise<boolean> {
    return this.#settle('release', { claim })
  }

  /** What its definition makes of the error: see `failure`. `retryIn`: seconds, if another try follows. */
  async fail(queue: Queue, claim: ClaimKey, thrown: unknown, retryIn?: number): Promise<boolean> {
    const held = await this.#rounds.add(claim)
    if (!held) return false
    const policy = held.tries === null ? queue : { ...queue, maxRetryCount: held.tries - 1 }
    const decided = failure(policy, roundOf(held), thrown, this.#options.describe)
    const failed = decided.end === 'fail' && retryIn !== undefined ? { ...decided, retryIn } : decided
    if (failed.end === 'drop') return this.#settle('complete', { claim })
    return this.#settle(failed.end === 'discard' ? 'discard' : 'fail', { claim, failure: failed })
  }

  /** `lease`: ms. */
  extend(claim: ClaimKey, lease: number): Promise<boolean> {
    let gathered = this.#extensions.get(lease)
    if (!gathered) {
      gathered = new Gathered<ClaimKey, boolean>(
        (claims) => this.#extend(claims, lease),
        MOST_SETTLED,
        nameOf,
        isBadValue,
      )
      this.#extensions.set(lease, gathered)
    }
    return gathered.add(claim)
  }

  async #held(claims: readonly ClaimKey[]): Promise<(HeldRound | undefined)[]> {
    const rounds = await heldRounds(this.#options.database, claims, this.#options.triesHeader)
    const byClaim = new Map(rounds.map((round) => [fencedNameOf(round), round]))
    return claims.map((claim) => byClaim.get(fencedNameOf(claim)))
  }

  async #settle(end: LeasedEnd, ending: Ending): Promise<boolean> {
    if ((await this.#outcome(end, ending)) === 'lost') return false
    const { claim, isExpired, expired } = ending
    this.#options.onFreed(claim.queueId)
    if (!isExpired) this.#options.onEnded(claim.queueId, end === 'fail' || end === 'discard')
    if (expired) this.#options.onExpired(claim.queueId, expired)
    return true
  }

  /** What somebody's open transaction holds is waited for. */
  async #outcome(end: LeasedEnd, ending: Ending): Promise<Leftover['outcome'] | undefined> {
    const { claim } = ending
    const waiting = { row: nameOf(claim), until: performance.now() + PATIENCE, refusal: () => held(claim) }
    const alone = (longestWait: number) => this.#alone(end, ending, longestWait)
    if (buries(ending)) return this.#insistence.insist(alone, waiting)
    const outcome = await this.#ends[end].add(ending)
    return outcome === 'held' ? this.#insistence.wait(alone, waiting) : outcome
  }

  async #send(end: LeasedEnd, all: readonly Ending[]): Promise<(Leftover['outcome'] | undefined)[]> {
    return this.#outcomes(all, await this.#store(end, all))
  }

  #store(end: LeasedEnd, all: readonly Ending[], tx?: Queryable): Promise<Leftover[]> {
    const { database } = this.#options
    const claims = all.map(({ claim }) => claim)
    if (end === 'answer') {
      const results = all.map(({ kept }) => kept)
      return answerLeased(database, claims, results, tx)
    }
    const failures = all.flatMap((one) => one.failure ?? [])
    return settleLeased(database, end, claims, failures, tx)
  }

  /** In a transaction that waits for its row: the others skip it. */
  async #alone(
    end: LeasedEnd,
    ending: Ending,
    longestWait: number,
  ): Promise<Leftover['outcome'] | undefined> {
    const { database, lockTimeout } = this.#options
    const begin = waitingAtMost(Math.min(longestWait, lockTimeout()))
    const leftovers = await database.transaction((tx) => this.#store(end, [ending], tx), { begin })
    return this.#outcomes([ending], leftovers)[0]
  }

  #outcomes(all: readonly Ending[], leftovers: readonly Leftover[]): (Leftover['outcome'] | undefined)[] {
    this.#tell(leftovers.filter(({ outcome }) => outcome === 'again'))
    const outcomes = new Map(leftovers.map((leftover) => [nameOf(leftover), leftover.outcome]))
    return all.map(({ claim }) => outcomes.get(nameOf(claim)))
  }

  /** Jobs that wait again may be anybody's now, and who waits for them may be elsewhere. */
  #tell(again: readonly Leftover[]): void {
    if (again.length === 0) return
    this.#options.onAgain(again)
    const heads = again.map(({ queueId, shard, lane, performIn }) => ({
      queueId,
      shard: shard!,
      lane: lane!,
      performIn: performIn!,
    }))
    // Without it, they are found by the next look.
    tellHeads(this.#options.database, heads).catch(() => {})
  }

  async #extend(claims: readonly ClaimKey[], lease: number): Promise<boolean[]> {
    this.#extensions.delete(lease)
    const lost = await extendLeases(this.#options.database, claims, lease)
    const keys = new Set(lost.map(nameOf))
    return claims.map((claim) => !keys.has(nameOf(claim)))
  }
}

/**
 * What the answer to a call tells a claim by. Two claims of one id, of which at most one is held, go with different calls: what is
 * said of one would otherwise count for both.
 */
function nameOf({ queueId, id }: Pick<ClaimKey, 'queueId' | 'id'>): string {
  return `${queueId} ${id}`
}

function fencedNameOf(claim: ClaimKey): string {
  return `${claim.fence} ${nameOf(claim)}`
}

/** Deaths may wait for a row of the morgue: so each goes alone. */
function buries({ failure }: Ending): boolean {
  return failure?.end === 'die' || failure?.end === 'discard'
}

function roundOf(held: HeldRound): Round {
  return {
    ...held,
    rescued: false,
    toLoad: false,
    payloads: [],
    scores: [],
    seqs: undefined,
    headers: undefined,
    expiries: undefined,
    expired: 0,
    size: 0,
    cut: undefined,
  }
}

function held({ id }: ClaimKey): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    `job "${id}" can’t be settled: a transaction that has pushed it is still open after ${PATIENCE} ms; the claim stands, try again`,
  )
}
