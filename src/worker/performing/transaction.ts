import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { hasBroken, hasCode, isConnectionFailure, isRefusedLock, TIMED_OUT } from '../../postgres/failure.ts'
import { isCommitted, type Ready, readyToComplete, roundOf } from '../../store/handler-transaction.ts'
import { type Leftover, settleThrough } from '../../store/settle.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { Outcome } from '../settling/outcome.ts'
import type { ApplicationTransactions } from './application-transaction.ts'
import { ended, failAll } from './ending.ts'
import type { LentTransaction } from './lent-transaction.ts'
import { inOwnTransaction } from './own-transaction.ts'
import { type Failed, type Performance, type PerformSettings, perform } from './perform.ts'

export interface BatchSettings extends PerformSettings {
  readonly database: Database
  /** With a pool that only handlers' transactions use. */
  readonly handlers: Database
  readonly application: ApplicationTransactions
  /** Longest time, in ms, that a completion in a handler's transaction waits for a producer's. */
  readonly lockTimeout: number
}

/**
 * How a handler's transaction ended. `again`: nothing has failed, and nothing is stored; if that is `uncertain`, a COMMIT was
 * not answered. It has not `begun` if no connection could be had. `refused`: it could not be committed, and may never be.
 * `lost`: its connection was lost, so it is unknown whether it was committed, and why the connection broke. `disowned`: at
 * the end, the claim did not hold the rows of these ids, because of what others or the handler's own statements did.
 */
export type Ending =
  | { readonly kind: 'stored'; readonly outcome: Outcome; readonly leftovers: readonly Leftover[] }
  | { readonly kind: 'failed'; readonly failed: Failed }
  | { readonly kind: 'refused'; readonly error: unknown }
  | { readonly kind: 'lost'; readonly error: unknown }
  | { readonly kind: 'again'; readonly uncertain: boolean; readonly begun: boolean }
  | { readonly kind: 'disowned'; readonly ids: ReadonlySet<string> }

const AGAIN: Ending = { kind: 'again', uncertain: false, begun: true }
const UNBEGUN: Ending = { kind: 'again', uncertain: false, begun: false }
const UNCERTAIN: Ending = { kind: 'again', uncertain: true, begun: true }

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
  /** Set when the handler has ended. */
  ready: Ready | undefined
}

/** Performs a batch in a transaction, completes it there and commits. */
export async function transact(
  settings: BatchSettings,
  claimant: Claimant,
  performance: Performance,
): Promise<Ending> {
  const course: Course = { step: 'begin', lent: undefined, ready: undefined }
  const work = (lent: LentTransaction) => {
    course.lent = lent
    return performIn(lent, settings, claimant, performance, course)
  }
  const name = nameOf(performance)
  const { transactions } = performance.queue
  try {
    if (!transactions) return await inOwnTransaction(settings.handlers, name, work)
    const ending = await settings.application.run(transactions, name, work)
    await requireCommit(settings, course.ready!)
    return ending
  } catch (error) {
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
    course.step = 'handler'
    const failed = await perform(performance, claimant, settings, lent.tx).finally(() => lent.end())
    const outcome = ended(performance, failed)
    if (outcome.completed.length === 0) throw await reasonFor(lent, failed, performance)
    if (outcome.released.length > 0) throw new Rollback(AGAIN)
    course.ready = await prepareToStore(settings, lent, performance)
    course.step = 'completion'
    const leftovers = await store(settings, lent, claimant, outcome, course.ready)
    course.step = 'commit'
    return { kind: 'stored', outcome, leftovers }
  } finally {
    abort.signal.removeEventListener('abort', cut)
  }
}

/**
 * A library, or the server, answers a COMMIT without an error though a statement has failed after ours: one that the handler
 * did not await, and whose error no one has heard. The claim would be ours for as long as the process lives.
 */
async function requireCommit({ database }: BatchSettings, { transaction }: Ready): Promise<void> {
  if (await isCommitted(database, transaction)) return
  throw new Error(
    'the handler’s transaction was not committed, though its library says so: await everything that is sent through `context.tx`',
  )
}

/**
 * The reason to roll back a batch whose handler has failed all of it. If the connection was lost meanwhile, that alone may
 * be why it failed. Time-outs that end a session are different: they are due to what the handler did. So is an aborted
 * signal: then we ended the connection ourselves.
 */
async function reasonFor(lent: LentTransaction, failed: Failed, performance: Performance): Promise<Error> {
  // The session may have ended together with the answer to BEGIN, when nothing watched yet. And an ERROR may have the code
  // of an ending session: if it answers, nothing is lost.
  const round = await roundOf(lent.on).catch((error: Error) => error)
  const lost = lent.lost ?? (isConnectionFailure(round) ? (round as Error) : undefined)
  if (lost && !hasCode(lost, ...TIMED_OUT) && performance.abort.reason === undefined) return lost
  const isOurs = round instanceof Error ? !hasCode(round, ENDED) : round === nameOf(performance)
  return new Rollback({ kind: 'failed', failed: isOurs ? failed : withEnd(failed) })
}

/** The code of a transaction that its library knows to have ended. */
const ENDED = 'LK004'
const ENDED_ITSELF = 'the handler ended its transaction itself: leave COMMIT and ROLLBACK to the worker'

/** What the handler threw, and that it ended its transaction, too. */
function withEnd(failed: Failed): Failed {
  return new Map(
    [...failed].map(([id, thrown]) => {
      const told = thrown instanceof Error ? thrown.message : String(thrown)
      return [id, new Error(`${told}; and ${ENDED_ITSELF}`, { cause: thrown })]
    }),
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
  if (step === 'begin') return abort.reason ? AGAIN : UNBEGUN
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
  const error = ('error' in ending ? ending.error : thrown) as Error
  const ids = rounds.map(({ id }) => id)
  logger.warn({ error: error.message, queue: served.queue.name, shard, ids }, warningOf(ending))
}

function warningOf({ kind }: Ending): string {
  if (kind === 'lost') return 'the connection of a handler’s transaction was lost: a crash is counted'
  if (kind === 'refused') return 'a handler’s transaction was refused: a failure is counted'
  return 'a handler’s transaction failed to begin or to commit: its jobs are tried again'
}

function nameOf({ rounds }: Performance): string {
  return String(rounds[0]!.fence)
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
  { on }: LentTransaction,
  performance: Performance,
): Promise<Ready> {
  const ready = await readyToComplete(on, lockTimeout).catch((error: Error) => {
    if (hasBroken(error)) throw error
    if (hasCode(error, ENDED)) return undefined
    throw new Error(`the handler left its transaction aborted: ${error.message}`, { cause: error })
  })
  if (ready?.round === nameOf(performance)) return ready
  throw new Rollback({ kind: 'failed', failed: failAll(performance.rounds, new Error(ENDED_ITSELF)) })
}

/** All or nothing: one lost claim also undoes what the handler wrote for the other ids. */
async function store(
  { database }: BatchSettings,
  { on }: LentTransaction,
  { served, processId }: Claimant,
  { completed, failed }: Outcome,
  { settings }: Ready,
): Promise<Leftover[]> {
  const holder = { processId, queueId: served.queueId }
  const leftovers = await settleThrough(database, on, holder, completed, failed, settings)
  const lost = leftovers.filter(({ outcome }) => outcome === 'lost').map(({ id }) => id)
  if (lost.length > 0) throw new Rollback({ kind: 'disowned', ids: new Set(lost) })
  return leftovers
}
