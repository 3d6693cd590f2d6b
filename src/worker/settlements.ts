import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import type { Round } from '../store/claim.ts'
import { complete, type Exception, fail, release } from '../store/settle.ts'
import { Bell } from './bell.ts'
import type { Exchange } from './exchange.ts'
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
  completed(claimant: Claimant, rounds: readonly Round[]): void
  failed(claimant: Claimant, failure: FailedRound): void
  refused(claimant: Claimant, round: Round): void
  /** Nothing of the round is left to be stored. */
  ended(claimant: Claimant, rounds: readonly Round[]): void
}

/** Rounds of one batch that share a fate. */
interface Piece {
  readonly claimant: Claimant
  readonly kind: 'complete' | 'fail' | 'release'
  readonly rounds: readonly Round[]
  readonly failures: readonly FailedRound[]
  /** An earlier try may have been stored though its answer was lost: then a claim that is gone is no news. */
  readonly uncertain: boolean
}

const SHORTEST_PAUSE = 20
const LONGEST_PAUSE = 1_000

/**
 * Stores how batches ended, while the slots go on. What can't be stored now, because a producer's open transaction
 * holds the row or the database is out of reach, is kept and tried again.
 */
export class Settlements implements Service {
  readonly #database: Database
  readonly #exchange: Exchange
  readonly #timetable: Timetable
  readonly #logger: Logger
  readonly #observer: SettlementObserver
  readonly #stored = new Bell()
  readonly #loop = new Loop(() => this.#retry())
  #kept: Piece[] = []
  /** Pieces that are being stored. */
  #open = 0
  /** Claims of the process up to this id may be somebody else's by now. */
  #forgotten = 0
  #pause = SHORTEST_PAUSE

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

  /** Rounds whose outcome is not stored yet. */
  get pending(): number {
    return this.#kept.reduce((sum, { rounds }) => sum + rounds.length, 0)
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  /** Waits until everything is stored, for `timeout` ms at most. */
  async drain(timeout: number): Promise<void> {
    const until = performance.now() + timeout
    while (this.#kept.length + this.#open > 0 && performance.now() < until)
      await this.#stored.wait(until - performance.now())
  }

  /** `uncertain`: it may be stored already, so that a lost claim is no news. */
  settle(claimant: Claimant, { completed, failed, released }: Outcome, uncertain = false): void {
    const rest = { claimant, failures: [], uncertain }
    if (completed.length > 0) void this.#try({ ...rest, kind: 'complete', rounds: completed })
    if (released.length > 0) void this.#try({ ...rest, kind: 'release', rounds: released })
    if (failed.length === 0) return
    void this.#try({ ...rest, kind: 'fail', rounds: failed.map(({ round }) => round), failures: failed })
  }

  /** What a transaction of the handler's has stored already, with the jobs of it that wait again. */
  stored(claimant: Claimant, { completed, failed }: Outcome, exceptions: readonly Exception[]): void {
    for (const exception of exceptions) this.#notice(claimant, exception)
    this.#announce(claimant, completed, failed)
    this.#observer.ended(claimant, [...completed, ...failed.map(({ round }) => round)])
  }

  /** The claims are lost with the lease of the process, and of those it was before: what is kept would be refused. */
  forget(processId: number): void {
    this.#forgotten = processId
    const kept = this.#kept
    this.#kept = []
    for (const { claimant, rounds } of kept) this.#observer.ended(claimant, rounds)
  }

  async #try(piece: Piece, again = false): Promise<void> {
    this.#open += 1
    try {
      this.#conclude(piece, await this.#store(piece, again))
    } catch (error) {
      this.#logger.warn(
        { error: (error as Error).message },
        'storing an outcome failed: it is kept and tried again',
      )
      this.#keep({ ...piece, uncertain: piece.uncertain || isConnectionFailure(error) })
    } finally {
      this.#open -= 1
      this.#stored.ring()
    }
  }

  /** What is stored again goes alone: it may be what made all that went with it fail. */
  #store({ claimant, kind, rounds, failures }: Piece, again: boolean): Promise<Exception[]> {
    const { processId, served } = claimant
    const holder = { processId, queueId: served.queueId }
    if (kind === 'fail') return fail(this.#database, holder, failures)
    if (kind === 'release') return release(this.#database, holder, rounds)
    return again
      ? complete(this.#database, holder, rounds)
      : this.#exchange.complete(processId, served.queueId, rounds)
  }

  #conclude(piece: Piece, exceptions: readonly Exception[]): void {
    const { claimant, rounds, failures } = piece
    if (exceptions.length === 0) {
      this.#announce(claimant, piece.kind === 'complete' ? rounds : [], failures)
      this.#observer.ended(claimant, rounds)
      return
    }
    // Whether our own earlier try ended the claim, or somebody else did, nobody can tell once the lease was lost.
    const uncertain = piece.uncertain && claimant.processId > this.#forgotten
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
    if (held.length > 0) {
      this.#keep({ ...piece, rounds: held, failures: failures.filter(({ round }) => held.includes(round)) })
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
    this.#kept.push(piece)
    this.#loop.alarm.ring()
  }

  async #retry(): Promise<void> {
    await this.#loop.alarm.wait(this.#kept.length > 0 ? this.#pause : undefined)
    if (this.#loop.stopping || this.#kept.length === 0) return
    const before = this.pending
    const pieces = this.#kept
    this.#kept = []
    for (const piece of pieces) await this.#try(piece, true)
    this.#pause = this.pending < before ? SHORTEST_PAUSE : Math.min(this.#pause * 2, LONGEST_PAUSE)
  }
}
