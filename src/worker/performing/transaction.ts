import type { EventEmitter } from 'node:events'
import type { PoolClient } from 'pg'
import type { Logger } from '../../logger.ts'
import { disconnect } from '../../postgres/connection.ts'
import type { Database } from '../../postgres/database.ts'
import { hasBroken, hasCode, isConnectionFailure, isRefusedLock, TIMED_OUT } from '../../postgres/failure.ts'
import type { Round } from '../../store/claim.ts'
import { beginRound, COMMIT_ROUND, readyToComplete } from '../../store/handler-transaction.ts'
import { complete, fail, type Leftover } from '../../store/settle.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { FailedRound, Outcome } from '../settling/outcome.ts'
import { ended, failAll } from './ending.ts'
import { lend } from './lent-transaction.ts'
import { type Failed, type Performance, type PerformSettings, perform } from './perform.ts'

export interface BatchSettings extends PerformSettings {
  /** With a pool that only handlers' transactions use. */
  readonly database: Database
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

/**
 * The codes with which a server or a pooler ends a session: after a time-out, because someone ends it, or in a crash. Codes
 * rather than messages, since messages are in the server's language.
 */
const LAST_WORDS = /^(08|25P0[34]|57P0)/

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
  /** Why the connection was lost. */
  lost: Error | undefined
}

/** Performs a batch in a transaction, completes it there and commits. */
export async function transact(
  settings: BatchSettings,
  claimant: Claimant,
  performance: Performance,
): Promise<Ending> {
  const course: Course = { step: 'begin', lost: undefined }
  let ignore = () => {}
  const begin = beginRound(nameOf(performance))
  const work = (client: PoolClient) => {
    ignore = hearEnd(client, course)
    return performIn(client, settings, claimant, performance, course)
  }
  try {
    return await settings.database.transaction(work, { begin, commit: COMMIT_ROUND, lends: true })
  } catch (error) {
    if (error instanceof Rollback) return error.ending
    const ending = endingOf(error, course, performance)
    if (ending.kind !== 'again' || !isRefusedLock(error))
      warn(settings.logger, claimant, performance, ending, error)
    return ending
  } finally {
    ignore()
  }
}

async function performIn(
  client: PoolClient,
  settings: BatchSettings,
  claimant: Claimant,
  performance: Performance,
  course: Course,
): Promise<Ending> {
  const { database } = settings
  const stay = endWithSignal(client, performance.abort.signal)
  try {
    // The lease may have ended while BEGIN was under way: others may have the ids by now.
    if (performance.abort.signal.aborted) throw new Rollback(AGAIN)
    course.step = 'handler'
    const lent = lend(client)
    const failed = await perform(performance, claimant, settings, lent.tx).finally(lent.end)
    const outcome = ended(performance, failed)
    if (outcome.completed.length === 0) throw await reasonFor(database, client, failed, course, performance)
    if (outcome.released.length > 0) throw new Rollback(AGAIN)
    await prepareToStore(settings, client, performance)
    course.step = 'completion'
    const leftovers = await store(database, client, claimant, outcome)
    course.step = 'commit'
    return { kind: 'stored', outcome, leftovers }
  } finally {
    stay()
  }
}

/**
 * The reason to roll back a batch whose handler has failed all of it. If the connection was lost meanwhile, that alone may
 * be why it failed. Time-outs that end a session are different: they are due to what the handler did. So is an aborted
 * signal: then we ended the connection ourselves.
 */
async function reasonFor(
  database: Database,
  client: PoolClient,
  failed: Failed,
  course: Course,
  { abort }: Performance,
): Promise<Error> {
  // The session may have ended together with the answer to BEGIN, when nothing watched yet. And an ERROR may have the code
  // of an ending session: if it answers, nothing is lost.
  const ended = await database.query('', [], client).then(
    () => undefined,
    (error: Error) => (isConnectionFailure(error) ? error : undefined),
  )
  const lost = course.lost ?? ended
  if (lost && !hasCode(lost, ...TIMED_OUT) && abort.reason === undefined) return lost
  return new Rollback({ kind: 'failed', failed })
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
function endingOf(error: unknown, { step, lost }: Course, { abort }: Performance): Ending {
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

/**
 * Notes why the connection is lost: the server's last words, between two statements or in the middle of one of the
 * handler's, or that it ended without any. A handler may swallow the error, and for later statements the driver only says
 * that there is no connection. If the session becomes ready for another statement, those were not its last words. Returns
 * a function that ends the watch.
 */
function hearEnd(client: PoolClient, course: Course): () => void {
  const { connection } = client as PoolClient & { readonly connection?: EventEmitter }
  const lose = (error = new Error('the connection ended')) => {
    course.lost ??= error
  }
  const hear = (error: Error & { readonly severity?: string; readonly code?: string }) => {
    if (error.severity === 'FATAL' || LAST_WORDS.test(error.code ?? '')) lose(error)
  }
  const end = () => lose()
  const goOn = () => {
    course.lost = undefined
  }
  connection?.on('errorMessage', hear).on('readyForQuery', goOn).on('error', lose).on('end', end)
  return () =>
    connection?.off('errorMessage', hear).off('readyForQuery', goOn).off('error', lose).off('end', end)
}

/**
 * Ends the connection when the signal is aborted. Nothing of the transaction may take effect then, and a statement of the
 * handler's that is never answered (the connection is half-open) must not hold it for ever. Returns a function that ends
 * the watch.
 */
function endWithSignal(client: PoolClient, signal: AbortSignal): () => void {
  const end = () => void disconnect(client)
  signal.addEventListener('abort', end)
  return () => signal.removeEventListener('abort', end)
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
  { database, lockTimeout }: BatchSettings,
  client: PoolClient,
  performance: Performance,
): Promise<void> {
  const round = await readyToComplete(database, client, lockTimeout).catch((error: Error) => {
    if (hasBroken(error)) throw error
    throw new Error(`the handler left its transaction aborted: ${error.message}`, { cause: error })
  })
  if (round === nameOf(performance)) return
  const error = new Error('the handler ended its transaction itself: leave COMMIT and ROLLBACK to the worker')
  throw new Rollback({ kind: 'failed', failed: failAll(performance.rounds, error) })
}

/** All or nothing: one lost claim also undoes what the handler wrote for the other ids. */
async function store(
  database: Database,
  client: PoolClient,
  { served, processId }: Claimant,
  { completed, failed }: { completed: readonly Round[]; failed: readonly FailedRound[] },
): Promise<Leftover[]> {
  const holder = { processId, queueId: served.queueId, tx: client }
  const leftovers = await complete(database, holder, completed)
  if (failed.length > 0) leftovers.push(...(await fail(database, holder, failed)))
  const lost = leftovers.filter(({ outcome }) => outcome === 'lost').map(({ id }) => id)
  if (lost.length > 0) throw new Rollback({ kind: 'disowned', ids: new Set(lost) })
  return leftovers
}
