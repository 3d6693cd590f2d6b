import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import type { Round } from '../store/claim.ts'
import { patiently } from '../store/patience.ts'
import { complete, crash, type Exception, exceptionsOf, fail, type Holder, release } from '../store/settle.ts'
import { Bell } from './bell.ts'
import type { Exchange } from './exchange.ts'
import { groups, Kept, type Piece } from './kept.ts'
import type { FailedRound, Outcome } from './outcome.ts'
import { Loop, type Service } from './service.ts'
import type { ServedQueue, Timetable } from './timetable.ts'

/** Whose rounds they are: a slot's batch, begun at `startedAt` ms of the monotonic clock. */
export interface Claimant {
  readonly served: ServedQueue
  readonly processId: number
  readonly shard: number
  readonly slot: number
  readonly startedAt: number
}

/** Told when something is stored, or was refused. */
export interface SettlementObserver {
  /** Whether the lease runs under which this process, as who it was then, has claimed. */
  holds(processId: number): boolean
  completed(claimant: Claimant, rounds: readonly Round[]): void
  failed(claimant: Claimant, failure: FailedRound): void
  refused(claimant: Claimant, round: Round): void
  /** Nothing of the round is left to be stored. */
  ended(claimant: Claimant, rounds: readonly Round[]): void
}

const NONE: readonly FailedRound[] = []

/** ms from one try to store all that is kept to the next, doubled each time nothing was stored. */
const SHORTEST_PAUSE = 10
const LONGEST_PAUSE = 1_000
/** Rows waited for at once, each on a connection of its own. */
export const WAITING_AT_ONCE = 3
/** ms that a row is waited for at first; then twice as long each time. */
const FIRST_WAIT = 50

/**
 * Stores how batches ended, while the slots go on. What can't be stored now, because a producer's open transaction
 * holds the row or the database is out of reach, is kept and tried again: all at once, skipping what is locked. That alone
 * would never store what is pushed without pause. So a row that was skipped twice is waited for too, alone in a transaction
 * of its own: who waits for one row and holds none can't be part of a deadlock. A few are waited for side by side, and each
 * not for long, so that rows in transactions left open hold up none of the others.
 */
export class Settlements implements Service {
  /** ms that a row is waited for at most. Below the server's deadlock_timeout. */
  lockTimeout = FIRST_WAIT
  readonly #database: Database
  readonly #exchange: Exchange
  readonly #timetable: Timetable
  readonly #logger: Logger
  readonly #observer: SettlementObserver
  readonly #stored = new Bell()
  readonly #loop = new Loop(() => this.#retry())
  readonly #turn = new Bell()
  readonly #waiting = Array.from(
    { length: WAITING_AT_ONCE },
    () => new Loop(() => this.#waitForOne(), this.#turn),
  )
  readonly #kept = new Kept()
  /** Pieces that are being stored. */
  #open = 0
  #pause = SHORTEST_PAUSE
  #retriedAt = 0

  constructor(
    database: Database,
    exchange: Exchange,
    timetable: Timetable,
    logger: Logger,
    observer: SettlementObserver,
  ) {
    this.#database = database
    this.#exchange = exchange
    this.#timetable = timetable
    this.#logger = logger
    this.#observer = observer
  }

  async start(): Promise<void> {
    for (const loop of [this.#loop, ...this.#waiting]) await loop.start()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop, ...this.#waiting].map((loop) => loop.stop()))
  }

  /** Waits until everything is stored, for `timeout` ms at most. */
  async drain(timeout: number): Promise<void> {
    const until = performance.now() + timeout
    while (this.#kept.size + this.#open > 0 && performance.now() < until)
      await this.#stored.wait(until - performance.now())
  }

  /** `uncertain`: it may be stored already, so that a lost claim is no news. */
  settle(claimant: Claimant, { completed, failed, released }: Outcome, uncertain = false): void {
    if (completed.length > 0) this.#begin('complete', claimant, completed, uncertain)
    if (released.length > 0) this.#begin('release', claimant, released, uncertain)
    if (failed.length === 0) return
    const rounds = failed.map(({ round }) => round)
    this.#begin('fail', claimant, rounds, uncertain, failed)
  }

  /** How they ended is unknown: they go back with a crash counted (R10), unless an end of theirs is stored already. */
  crashed(claimant: Claimant, rounds: readonly Round[]): void {
    this.#begin('crash', claimant, rounds, true)
  }

  /** What a transaction of the handler's has stored already, with the jobs of it that wait again. */
  stored(claimant: Claimant, { completed, failed }: Outcome, exceptions: readonly Exception[]): void {
    for (const exception of exceptions) this.#notice(claimant, exception)
    this.#announce(claimant, completed, failed)
    this.#observer.ended(claimant, [...completed, ...failed.map(({ round }) => round)])
  }

  /** The claims are lost with the lease of the process, and of those it was before: what is kept would be refused. */
  forget(): void {
    for (const { claimant, rounds } of this.#kept.takeAll()) this.#observer.ended(claimant, rounds)
  }

  #begin(
    kind: Piece['kind'],
    claimant: Claimant,
    rounds: readonly Round[],
    uncertain: boolean,
    failures: readonly FailedRound[] = NONE,
  ): void {
    const piece = { claimant, kind, rounds, failures, uncertain, skips: 0, waits: 0 }
    void this.#try([piece], () => this.#storeFirst(piece))
  }

  /** `store` resolves to the exceptions, or to undefined where the row was waited for in vain. */
  async #try(
    pieces: readonly Piece[],
    store: () => Promise<readonly Exception[] | undefined>,
  ): Promise<void> {
    this.#open += pieces.length
    try {
      const exceptions = await store()
      for (const piece of pieces) {
        if (exceptions) this.#conclude(piece, exceptions)
        else this.#keep({ ...piece, waits: piece.waits + 1 })
      }
    } catch (error) {
      this.#logger.warn(
        { error: (error as Error).message },
        'storing an outcome failed: it is kept and tried again',
      )
      const uncertain = isConnectionFailure(error)
      for (const piece of pieces) this.#keep({ ...piece, skips: 0, uncertain: piece.uncertain || uncertain })
    } finally {
      this.#open -= pieces.length
      this.#stored.ring()
    }
  }

  /** With whatever else is under way to the server. */
  #storeFirst(piece: Piece): Promise<readonly Exception[]> {
    const { claimant, kind, rounds } = piece
    if (kind !== 'complete') return this.#store([piece])
    return this.#exchange.complete(claimant.processId, claimant.served.queueId, rounds)
  }

  /** Pieces of one kind, process and queue. */
  #store(pieces: readonly Piece[], tx?: Holder['tx']): Promise<Exception[]> {
    const { claimant, kind } = pieces[0]!
    const holder = { processId: claimant.processId, queueId: claimant.served.queueId, tx }
    const rounds = pieces.flatMap((piece) => piece.rounds)
    if (kind === 'complete') return complete(this.#database, holder, rounds)
    if (kind === 'release') return release(this.#database, holder, rounds)
    if (kind === 'crash') return crash(this.#database, holder, rounds)
    return fail(
      this.#database,
      holder,
      pieces.flatMap(({ failures }) => failures),
    )
  }

  #conclude(piece: Piece, all: readonly Exception[]): void {
    const { claimant, rounds, failures } = piece
    const exceptions = exceptionsOf(all, claimant.served.queueId, rounds)
    if (exceptions.length === 0) {
      this.#announce(claimant, piece.kind === 'complete' ? rounds : [], failures)
      this.#observer.ended(claimant, rounds)
      return
    }
    // Our own earlier try has ended the claim, if nobody else can have: once the lease is over, somebody may. It is asked here,
    // after the answer came, and not told of: a process that stood still hears of that later than of this.
    const uncertain = piece.uncertain && this.#observer.holds(claimant.processId)
    const outcome = new Map(exceptions.map((exception) => [exception.id, exception.outcome]))
    const isStored = ({ id }: Round) => {
      const exception = outcome.get(id)
      return exception === undefined || exception === 'again' || (exception === 'lost' && uncertain)
    }
    for (const exception of exceptions) this.#notice(claimant, exception)
    const stored = rounds.filter(isStored)
    const held = rounds.filter(({ id }) => outcome.get(id) === 'held')
    const lost = rounds.filter((round) => outcome.get(round.id) === 'lost' && !uncertain)
    const storedFailures = failures.filter(({ round }) => isStored(round))
    this.#announce(claimant, piece.kind === 'complete' ? stored : [], storedFailures)
    for (const round of lost) this.#observer.refused(claimant, round)
    this.#observer.ended(claimant, [...stored, ...lost])
    for (const round of held) {
      const mine = failures.filter((failure) => failure.round === round)
      this.#keep({ ...piece, rounds: [round], failures: mine, skips: piece.skips + 1 })
    }
  }

  /** A job that waits again may be due before the cursor. Stored late, no slot is awake to see it. */
  #notice({ served }: Claimant, { outcome, shard, lane, performIn }: Exception): void {
    if (outcome !== 'again') return
    const key = { queueId: served.queueId, shard: shard!, lane: lane! }
    if (this.#timetable.notice(key, performIn!)) this.#timetable.bell.ring()
  }

  #announce(claimant: Claimant, completed: readonly Round[], failed: readonly FailedRound[]): void {
    if (completed.length > 0) this.#observer.completed(claimant, completed)
    for (const failure of failed) this.#observer.failed(claimant, failure)
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
    const pieces = this.#kept.takeAll()
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE)
    for (const group of groups(pieces)) await this.#try(group, () => this.#store(group))
    if (this.#kept.size < pieces.length) this.#pause = SHORTEST_PAUSE
    this.#retriedAt = performance.now()
  }

  async #waitForOne(): Promise<void> {
    const piece = this.#kept.takeNext()
    if (!piece) return this.#turn.wait()
    const timeout = Math.min(FIRST_WAIT * 2 ** piece.waits, this.lockTimeout)
    await this.#try([piece], () => patiently(this.#database, timeout, (tx) => this.#store([piece], tx)))
  }
}
