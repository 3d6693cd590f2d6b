import { DatabaseError, legible, messageOf, summaryOf } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { hasBroken, hasCode, isConnectionFailure, isRefusedLock, TIMED_OUT } from '../../postgres/failure.ts'
import { type Place, placeOfRound, type Ready, readyToComplete } from '../../store/handler-transaction.ts'
import { anyExpired } from '../../store/left-out.ts'
import { type Leftover, settleThrough } from '../../store/settle.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { Outcome } from '../settling/outcome.ts'
import { ended, failAll } from './ending.ts'
import type { Lender, LentTransaction } from './lent-transaction.ts'
import { type Failed, type Performance, type PerformSettings, perform } from './perform.ts'

export interface BatchSettings extends PerformSettings {
  readonly database: Database
  readonly lender: Lender
  /** Longest time, in ms, that a completion in a handler's transaction waits for a producer's. */
  readonly lockTimeout: number
}

/**
 * How a handler's transaction ended. `again`: nothing has failed, and nothing is stored; if that is `uncertain`, a COMMIT was
 * not answered. `unbegun`: the same, since no connection could be had. `refused`: it could not be committed, and may never be.
 * `lost`: its connection was lost, so it is unknown whether it was committed, and why the connection broke. `disowned`: at
 * the end, the claim did not hold the rows of these ids, because of what others or the handler's own statements did.
 * `expired`: no handler has begun, since a payload expired while the transaction did.
 */
export type Ending =
  | { readonly kind: 'stored'; readonly outcome: Outcome; readonly leftovers: readonly Leftover[] }
  | { readonly kind: 'failed'; readonly failed: Failed }
  | { readonly kind: 'refused'; readonly error: unknown }
  | { readonly kind: 'lost'; readonly error: unknown }
  | { readonly kind: 'again'; readonly uncertain: boolean }
  | { readonly kind: 'unbegun'; readonly error: unknown }
  | { readonly kind: 'disowned'; readonly ids: ReadonlySet<string> }
  | { readonly kind: 'expired' }

const AGAIN: Ending = { kind: 'again', uncertain: false }
const UNCERTAIN: Ending = { kind: 'again', uncertain: true }
const EXPIRED: Ending = { kind: 'expired' }

/** Thrown to roll back. */
class Rollback extends Error {
  readonly ending: Ending

  constructor(ending: Ending) {
    super('rolled back')
    this.ending = ending
  }
}

/** How far a transaction has got. */
interface Course {
  step: 'begin' | 'handler' | 'completion' | 'commit'
  lent: LentTransaction | undefined
}

/** Performs a batch in a transaction, completes it there and commits. */
export async function transact(
  settings: BatchSettings,
  claimant: Claimant,
  performance: Performance,
): Promise<Ending> {
  const course: Course = { step: 'begin', lent: undefined }
  const work = (lent: LentTransaction) => {
    course.lent = lent
    return performIn(lent, settings, claimant, performance, course)
  }
  try {
    const { queue, abort } = performance
    return await settings.lender.lend(queue, work, abort)
  } catch (thrown) {
    const error = legible(thrown)
    if (error instanceof Rollback) return error.ending
    const ending = endingOf(error, course, performance)
    if (ending.kind !== 'again' || !isRefusedLock(error))
      warn(settings.logger, claimant, performance, ending, error)
    return ending
  }
}

async function performIn(
  lent: LentTransaction,
  settings: BatchSettings,
  claimant: Claimant,
  performance: Performance,
  course: Course,
): Promise<Ending> {
  const { abort } = performance
  const cut = () => lent.abort()
  abort.signal.addEventListener('abort', cut)
  try {
    // The lease may have ended while BEGIN was under way: others may have the ids by now.
    if (abort.signal.aborted) throw new Rollback(AGAIN)
    // A connection may have been waited for. To begin anew is simpler than to end some rounds without their handler here.
    if (anyExpired(performance.rounds, settings.clock.now())) throw new Rollback(EXPIRED)
    course.step = 'handler'
    const failed = await perform(performance, claimant, settings, lent.tx).finally(() => lent.end())
    const hasFailed = performance.rounds.every(({ id }) => failed.has(id))
    if (hasFailed) throw await reasonFor(lent, failed, performance)
    const outcome = ended(performance, failed)
    if (outcome.released.length > 0) throw new Rollback(AGAIN)
    const ready = await prepareToStore(settings, lent, performance)
    lent.number = ready.transaction
    course.step = 'completion'
    const leftovers = await store(settings, lent, claimant, outcome, ready)
    if (!leftovers) throw endedItself(performance)
    course.step = 'commit'
    return { kind: 'stored', outcome, leftovers }
  } finally {
    abort.signal.removeEventListener('abort', cut)
  }
}

/**
 * The reason to roll back a batch whose handler has failed all of it. If the connection was lost meanwhile, that alone may
 * be why it failed. Time-outs that end a session are different: they are due to what the handler did. So is an aborted
 * signal: then we ended the connection ourselves.
 */
async function reasonFor(lent: LentTransaction, failed: Failed, performance: Performance): Promise<Error> {
  // The session may have ended together with the answer to BEGIN, when nothing watched yet. And an ERROR may have the code
  // of an ending session: if it answers, nothing is lost.
  const place = await placeOfRound(lent.on).catch((error: Error) => error)
  const lost = lent.lost ?? lossIn(lent, place)
  if (lost && !hasCode(lost, ...TIMED_OUT) && performance.abort.reason === undefined) return lost
  const isOurs = place instanceof Error ? !hasCode(place, ENDED) : place.round === lent.name
  return new Rollback({ kind: 'failed', failed: isOurs ? failed : withEnd(failed) })
}

/** A connection that failed; or the library has replaced it, and goes on in another session. */
function lossIn({ pid }: LentTransaction, place: Place | Error): Error | undefined {
  if (place instanceof Error) return isConnectionFailure(place) ? place : undefined
  if (pid === undefined || place.pid === pid) return undefined
  return new DatabaseError(
    'LOCKSTEP_CONNECTION',
    'the library of a handler’s transaction has lost its connection',
  )
}

/** The code of a transaction that its library knows to have ended. */
const ENDED = 'LK004'
const ENDED_ITSELF = 'the handler ended its transaction itself: leave COMMIT and ROLLBACK to the worker'

/** What the handler threw, and that it ended its transaction, too. */
function withEnd(failed: Failed): Failed {
  return new Map(
    [...failed].map(([id, thrown]) => [
      id,
      new Error(`${messageOf(thrown)}; and ${ENDED_ITSELF}`, { cause: thrown }),
    ]),
  )
}

/**
 * Only a lock that our completion was refused is a reason to try again as if nothing had happened. Anything else may happen
 * each time: a deferred constraint, rights that the handler gave away, a statement that failed and was swallowed, a
 * time-out of the server's for such transactions. So may a serialization conflict or a deadlock that ends a COMMIT: what
 * that checks is the application's.
 *
 * A connection may be lost each time too, because of what the handler does there (a backend that is killed for its memory),
 * though most are lost through no one's fault: `lost`.
 */
function endingOf(error: unknown, { step, lent }: Course, { abort }: Performance): Ending {
  const lost = lent?.lost
  if (step === 'begin') return abort.reason ? AGAIN : { kind: 'unbegun', error }
  if (hasCode(lost, ...TIMED_OUT)) {
    const message = `the server ended the handler’s transaction: ${lost!.message}`
    return { kind: 'refused', error: new Error(message, { cause: lost }) }
  }
  // If the session ended with an error that it may have survived, `lost` is set by now.
  if (lost || hasBroken(error))
    // If a COMMIT whose answer was lost did succeed, releasing will show it: then there is nothing to release.
    return abort.reason ? UNCERTAIN : { kind: 'lost', error: lost ?? error }
  return step === 'completion' && isRefusedLock(error) ? AGAIN : { kind: 'refused', error }
}

function warn(
  logger: Logger,
  { served, shard }: Claimant,
  { rounds }: Performance,
  ending: Ending,
  thrown: unknown,
): void {
  const error = 'error' in ending ? ending.error : thrown
  const ids = rounds.map(({ id }) => id)
  logger.warn({ error: summaryOf(error), queue: served.queue.name, shard, ids }, warningOf(ending))
}

function warningOf({ kind }: Ending): string {
  if (kind === 'lost') return 'the connection of a handler’s transaction was lost: a crash is counted'
  if (kind === 'refused') return 'a handler’s transaction was refused: a failure is counted'
  return 'a handler’s transaction failed to begin or to commit: its jobs are tried again'
}

/**
 * The completion waits for a producer as long as we say, whatever the handler has set for its own statements. It holds rows
 * of ours until the COMMIT, so the session must end if that does not come. And its ids are in the driver's encoding: in
 * another one, the server would take them for other ids.
 *
 * This fails if a statement of the handler's failed and the handler swallowed the error, or did not await it. Nothing of
 * the transaction can take effect then, so its parts may be tried separately. If the handler has committed by itself, they
 * may not: each would write once more.
 */
async function prepareToStore(
  { lockTimeout }: BatchSettings,
  lent: LentTransaction,
  performance: Performance,
): Promise<Ready> {
  const ready = await readyToComplete(lent.on, lockTimeout).catch((error: Error) => {
    if (hasBroken(error)) throw error
    if (hasCode(error, ENDED)) return undefined
    throw new Error(`the handler left its transaction aborted: ${error.message}`, { cause: error })
  })
  if (ready?.round === lent.name) return ready
  throw lent.lost ?? (ready && lossIn(lent, ready)) ?? endedItself(performance)
}

function endedItself({ rounds }: Performance): Rollback {
  return new Rollback({ kind: 'failed', failed: failAll(rounds, new Error(ENDED_ITSELF)) })
}

/**
 * All or nothing: one lost claim also undoes what the handler wrote for the other ids. Undefined if the transaction is no
 * longer the round's.
 */
async function store(
  { database }: BatchSettings,
  { on }: LentTransaction,
  { served, processId }: Claimant,
  { completed, failed }: Outcome,
  { round, settings }: Ready,
): Promise<Leftover[] | undefined> {
  const holder = { processId, queueId: served.queueId }
  const place = { round: round!, settings }
  const leftovers = await settleThrough(database, on, holder, completed, failed, place)
  const lost = (leftovers ?? []).filter(({ outcome }) => outcome === 'lost').map(({ id }) => id)
  if (lost.length > 0) throw new Rollback({ kind: 'disowned', ids: new Set(lost) })
  return leftovers
}
