import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { isConnectionFailure } from '../../postgres/failure.ts'
import type { Round } from '../../store/claim.ts'
import type { Head } from '../../store/head.ts'
import { patiently } from '../../store/patience.ts'
import { type Leftover, roundOf } from '../../store/settle.ts'
import { Bell } from '../lifecycle/bell.ts'
import { Loop, type Service } from '../lifecycle/service.ts'
import type { Batcher } from './batcher.ts'
import type { Claimant } from './claimant.ts'
import { Kept } from './kept.ts'
import type { FailedRound, Outcome, Settler } from './outcome.ts'
import { byKind, isTravelling, kindOfSuccess, type Piece, storeIn } from './piece.ts'

/** Called when something was stored, or was refused. */
export interface CompletionObserver {
  /** Whether the lease runs under which the membership `processId` has claimed. */
  holds(processId: number): boolean
  completed(claimant: Claimant, rounds: readonly Round[]): void
  /** Resolves when everyone has been told. */
  failed(claimant: Claimant, failure: FailedRound): Promise<void> | undefined
  refused(claimant: Claimant, round: Round): void
  /** Nothing is left to be stored for these rounds. */
  ended(claimant: Claimant, rounds: readonly Round[]): void
  /** Jobs whose round has ended wait again. Resolves when the processes that have their lanes were told. */
  waitAgain(heads: readonly Head[]): Promise<void>
}

const NONE: readonly FailedRound[] = []

/** ms between tries to store all that is kept; doubled each time nothing was stored. */
const SHORTEST_PAUSE = 10
const LONGEST_PAUSE = 1_000
/** How many rows are waited for at once, each on a connection of its own. */
export const WAITING_AT_ONCE = 3
/** Longest first wait for a row, in ms; doubled each time. */
const FIRST_WAIT = 50

/**
 * Stores how batches ended, while the slots go on, together with whatever else goes to the server. What can't be stored
 * now, because a producer's open transaction holds the row or the database is out of reach, is kept and tried again: all at
 * once, skipping locked rows. That alone would never store the outcome of an id that is pushed without pause. So we also
 * wait for a row that was skipped twice, alone in a transaction of its own: a transaction that waits for one row and holds
 * none can't be part of a deadlock. A few such waits run in parallel, and none takes long, so that rows in transactions
 * left open hold up none of the others.
 *
 * Deaths are stored by the loops that wait, since a row of the morgue can't be skipped: many in one transaction, and if
 * that was in vain, each alone. Meanwhile they may hold rows, so it is the time-out that ends a deadlock. An outcome that
 * has failed before goes alone too: it may be what makes everything that goes with it fail.
 */
export class Completer implements Service, Settler {
  /** Longest wait for a row, in ms. Below the server's deadlock_timeout. */
  lockTimeout = FIRST_WAIT
  readonly #database: Database
  readonly #batcher: Batcher
  readonly #logger: Logger
  readonly #observer: CompletionObserver
  readonly #stored = new Bell()
  readonly #loop = new Loop(() => this.#retry())
  readonly #turn = new Bell()
  readonly #waiting = Array.from(
    { length: WAITING_AT_ONCE },
    () => new Loop(() => this.#waitForNext(), this.#turn),
  )
  readonly #kept = new Kept()
  /** Pieces that are being stored. */
  #open = 0
  #pause = SHORTEST_PAUSE
  #retriedAt = 0
  /** How many pieces the last retry has tried. */
  #retried = 0

  constructor(database: Database, batcher: Batcher, logger: Logger, observer: CompletionObserver) {
    this.#database = database
    this.#batcher = batcher
    this.#logger = logger
    this.#observer = observer
    batcher.listener = {
      stored: (pieces, leftovers) => this.#conclude(pieces, leftovers),
      failed: (pieces, error) => this.#failed(pieces, error),
    }
  }

  async start(): Promise<void> {
    for (const loop of [this.#loop, ...this.#waiting]) await loop.start()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop, ...this.#waiting].map((loop) => loop.stop()))
  }

  /** Waits until everything is stored, and told, for `timeout` ms at most. Resolves to whether it is. */
  async drain(timeout: number): Promise<boolean> {
    const until = performance.now() + timeout
    while (this.#kept.size + this.#open > 0 && performance.now() < until)
      await this.#stored.wait(until - performance.now())
    return this.#kept.size + this.#open === 0
  }

  settle(claimant: Claimant, { completed, failed, released }: Outcome, uncertain = false): void {
    this.#handIn(kindOfSuccess(completed), claimant, completed, { uncertain })
    this.#handIn('release', claimant, released, { uncertain })
    for (const [kind, failures] of byKind(failed))
      this.#handIn(kind, claimant, failures.map(roundOf), { uncertain, failures })
  }

  /**
   * Releases rounds unchanged. Resolves when that was tried: by then they wait again, except those whose rows are locked.
   */
  release(claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    return new Promise((answered) => this.#handIn('release', claimant, rounds, { answered }))
  }

  crashed(claimant: Claimant, rounds: readonly Round[]): void {
    this.#handIn('crash', claimant, rounds, { uncertain: true })
  }

  stored(claimant: Claimant, { completed, failed }: Outcome, leftovers: readonly Leftover[]): void {
    this.#notice(leftovers)
    this.#announce(claimant, completed, failed)
    this.#observer.ended(claimant, [...completed, ...failed.map(roundOf)])
  }

  /**
   * The claims of the process and its former memberships are lost with the lease: drops what is kept, since it would be
   * refused.
   */
  forget(): void {
    for (const { claimant, rounds } of this.#kept.takeAll()) this.#observer.ended(claimant, rounds)
  }

  #handIn(
    kind: Piece['kind'],
    claimant: Claimant,
    rounds: readonly Round[],
    { uncertain = false, failures = NONE, answered }: Partial<Piece>,
  ): void {
    if (rounds.length === 0) return
    const { queueId } = claimant.served
    const [alone, skips, waits] = [uncertain, 0, 0]
    this.#begin({ claimant, queueId, kind, rounds, failures, uncertain, alone, skips, waits, answered })
  }

  #begin(piece: Piece): void {
    if (isTravelling(piece)) {
      this.#open += 1
      this.#batcher.settle(piece)
    } else {
      this.#kept.addToWaitFor(piece)
      this.#turn.ring()
    }
  }

  #ended(pieces: readonly Piece[]): void {
    this.#closed(pieces.length)
    for (const piece of pieces) piece.answered?.()
  }

  #closed(count: number): void {
    this.#open -= count
    this.#stored.ring()
  }

  #failed(pieces: readonly Piece[], error: unknown): void {
    const { message } = error as Error
    this.#logger.warn(
      { event: 'settling', error: message },
      'storing an outcome failed: it is kept and tried again',
    )
    const lost = isConnectionFailure(error)
    for (const piece of pieces)
      this.#keep({ ...piece, alone: true, skips: 0, uncertain: piece.uncertain || lost })
    this.#ended(pieces)
  }

  #conclude(pieces: readonly Piece[], leftovers: readonly Leftover[]): void {
    this.#notice(leftovers)
    const outcomes = new Map(leftovers.map(({ queueId, id, outcome }) => [`${queueId} ${id}`, outcome]))
    for (const piece of pieces) {
      if (outcomes.size === 0) this.#end(piece, piece.rounds, piece.failures)
      else this.#concludeOne(piece, outcomes)
    }
    this.#ended(pieces)
  }

  #concludeOne(piece: Piece, outcomes: ReadonlyMap<string, Leftover['outcome']>): void {
    const { claimant, queueId, rounds, failures } = piece
    const outcomeOf = ({ id }: Round) => outcomes.get(`${queueId} ${id}`)
    // Our own earlier try has ended the claim, if no other process can have: once the lease is over, one may. This is
    // checked here, after the answer came, instead of being reported: a process that was stopped gets the report later than
    // this answer.
    const uncertain = piece.uncertain && this.#observer.holds(claimant.processId)
    const isHeld = (round: Round) => outcomeOf(round) === 'held'
    const isLost = (round: Round) => outcomeOf(round) === 'lost' && !uncertain
    const isStored = (round: Round) => !isHeld(round) && !isLost(round)
    for (const round of rounds.filter(isLost)) {
      this.#observer.refused(claimant, round)
      this.#observer.ended(claimant, [round])
    }
    const stored = failures.filter(({ round }) => isStored(round))
    this.#end(piece, rounds.filter(isStored), stored)
    for (const round of rounds.filter(isHeld)) {
      const mine = failures.filter((failure) => failure.round === round)
      this.#keep({ ...piece, rounds: [round], failures: mine, skips: piece.skips + 1 })
    }
  }

  /** These rounds of the piece are stored. */
  #end({ claimant, kind }: Piece, rounds: readonly Round[], failures: readonly FailedRound[]): void {
    if (rounds.length === 0) return
    const isSuccess = (kind === 'complete' || kind === 'answer') && failures.length === 0
    this.#announce(claimant, isSuccess ? rounds : [], failures)
    this.#observer.ended(claimant, rounds)
  }

  #notice(leftovers: readonly Leftover[]): void {
    const heads = leftovers.flatMap(({ outcome, queueId, shard, lane, performIn }) =>
      outcome === 'again' ? { queueId, shard: shard!, lane: lane!, performIn: performIn! } : [],
    )
    if (heads.length > 0) this.#awaited(this.#observer.waitAgain(heads))
  }

  /** Something that must not go on after the worker has stopped. Never rejects. */
  #awaited(told: Promise<void> | undefined): void {
    if (!told) return
    this.#open += 1
    void told.then(() => this.#closed(1))
  }

  #announce(claimant: Claimant, completed: readonly Round[], failed: readonly FailedRound[]): void {
    if (completed.length > 0) this.#observer.completed(claimant, completed)
    for (const failure of failed) this.#awaited(this.#observer.failed(claimant, failure))
  }

  #keep(piece: Piece): void {
    this.#kept.add(piece)
    // The first skip is no reason to wait as long as for what has been kept for a while.
    if (piece.skips === 1) this.#pause = SHORTEST_PAUSE
    this.#loop.alarm.ring()
    this.#turn.ring()
  }

  async #retry(): Promise<void> {
    const rest = this.#kept.size > 0 ? this.#retriedAt + this.#pause - performance.now() : undefined
    if (rest === undefined || rest > 0) return this.#loop.alarm.wait(rest)
    const pieces = this.#kept.takeToTry()
    this.#pause = pieces.length < this.#retried ? SHORTEST_PAUSE : Math.min(this.#pause * 2, LONGEST_PAUSE)
    this.#retried = pieces.length
    this.#retriedAt = performance.now()
    for (const piece of pieces) this.#begin(piece)
  }

  #waitedInVain(pieces: readonly Piece[]): void {
    for (const piece of pieces) this.#keep({ ...piece, waits: piece.waits + 1 })
    this.#ended(pieces)
  }

  async #waitForNext(): Promise<void> {
    const pieces = this.#kept.takeNext()
    const [first] = pieces
    if (!first) return this.#turn.wait()
    this.#open += pieces.length
    try {
      const timeout = Math.min(FIRST_WAIT * 2 ** first.waits, this.lockTimeout)
      const leftovers = await patiently(this.#database, timeout, (tx) => storeIn(this.#database, tx, pieces))
      if (leftovers) this.#conclude(pieces, leftovers)
      else this.#waitedInVain(pieces)
    } catch (error) {
      this.#failed(pieces, error)
    }
  }
}
