import type { EventEmitter } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import type pg from 'pg'
import type { PoolClient } from 'pg'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { hasCode, isConnectionFailure, isRefusedLock, TIMED_OUT } from '../../postgres/failure.ts'
import type { Round } from '../../store/claim.ts'
import { beginRound, COMMIT_ROUND, readyToComplete } from '../../store/handler-transaction.ts'
import { complete, fail, type Leftover } from '../../store/settle.ts'
import type { Claimant } from '../settling/completer.ts'
import type { FailedRound, Outcome } from '../settling/outcome.ts'
import { ended, failAll } from './ending.ts'
import { lend } from './lent-transaction.ts'
import { type Failed, type Performance, type PerformSettings, perform } from './perform.ts'

export interface BatchSettings extends PerformSettings {
  /** On a pool for handlers' transactions alone. */
  readonly database: Database
  /** ms a completion in a handler's transaction waits for a producer's at most. */
  readonly lockTimeout: number
}

/**
 * How a handler's transaction ended. `refused`: it could not be committed, and may never be. `lost`: its connection went, so
 * that nobody knows whether it was committed, nor what it went of. `disowned`: the rows of these ids were not the claim's at
 * the end, by what others did or by the handler's own statements.
 */
export type Ending =
  | { readonly kind: 'stored'; readonly outcome: Outcome; readonly leftovers: readonly Leftover[] }
  | { readonly kind: 'failed'; readonly failed: Failed }
  | { readonly kind: 'refused'; readonly error: unknown }
  | { readonly kind: 'lost'; readonly error: unknown }
  | { readonly kind: 'again'; readonly uncertain: boolean }
  | { readonly kind: 'disowned'; readonly ids: ReadonlySet<string> }

const AGAIN: Ending = { kind: 'again', uncertain: false }

/** What a server says, or when somebody or a crash ends the session: known by its code, since words have a language. */
const LAST_WORDS = /^(25P0[34]|57P0)/

/** Thrown to roll back. */
class Rollback extends Error {
  readonly ending: Ending

  constructor(ending: Ending) {
    super('rolled back')
    this.ending = ending
  }
}

/** How far a transaction has come. */
interface Course {
  step: 'begin' | 'handler' | 'completion' | 'commit'
  /** What the connection went of. */
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
    // The lease may have ended while the server was asked to begin: others may have the ids by now.
    if (performance.abort.signal.aborted) throw new Rollback(AGAIN)
    course.step = 'handler'
    const lent = lend(client)
    const failed = await perform(performance, claimant, settings, lent.tx).finally(lent.end)
    const outcome = ended(performance, failed)
    if (outcome.completed.length === 0) throw await reasonFor(client, failed, course, performance)
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
 * Why a batch is rolled back whose handler has failed all of it. Where its connection went meanwhile, it may have failed of
 * that alone. Time-outs that end a session are told apart: they are for what the handler did. And where its signal was aborted,
 * it was us who ended the connection.
 */
async function reasonFor(
  client: PoolClient,
  failed: Failed,
  course: Course,
  { abort }: Performance,
): Promise<Error> {
  const lost = course.lost ?? (await knownEnd(client))
  if (lost && !hasCode(lost, ...TIMED_OUT) && abort.reason === undefined) return lost
  return new Rollback({ kind: 'failed', failed })
}

/**
 * What the driver says of a connection that it knows to be gone, before it sends anything: it may have heard so in one breath
 * with the answer to BEGIN, when nobody watched yet. Where it knows nothing, an empty query goes before the ROLLBACK.
 */
async function knownEnd(client: PoolClient): Promise<Error | undefined> {
  const refused = client.query('').then(
    () => undefined,
    (error: Error) => (isConnectionFailure(error) ? error : undefined),
  )
  return Promise.race([refused, setImmediate(undefined)])
}

/**
 * Only a lock that our completion was refused is a reason to try it again as if nothing had been. All else may be so each
 * time: a deferred constraint, rights that the handler gave away, a statement that failed and was swallowed, a time-out of
 * the server's for transactions like its. That is so for a conflict of serialization or a deadlock that a COMMIT ends with,
 * too: what it checks then is the application's.
 *
 * A connection that went may go each time, too, of what the handler does there (a backend that is killed for its memory),
 * though most go through nobody's fault: `lost`.
 */
function endingOf(error: unknown, { step, lost }: Course, { abort }: Performance): Ending {
  if (step === 'begin') return AGAIN
  if (hasCode(lost, ...TIMED_OUT)) {
    const message = `the server ended the handler’s transaction: ${lost!.message}`
    return { kind: 'refused', error: new Error(message, { cause: lost }) }
  }
  if (lost || isConnectionFailure(error))
    // Whether a COMMIT came through whose answer was lost, giving back will show: then there is nothing to give.
    return abort.reason ? { kind: 'again', uncertain: true } : { kind: 'lost', error: lost ?? error }
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
  const message =
    ending.kind === 'lost'
      ? 'the connection of a handler’s transaction was lost: a crash is counted'
      : 'a handler’s transaction could not be committed'
  const ids = rounds.map(({ id }) => id)
  logger.warn({ error: error.message, queue: served.queue.name, shard, ids }, message)
}

/**
 * Hears what the connection goes of: what the server says last, between two statements or in the middle of one of the
 * handler's, or that it went without a word. A handler may swallow it, and of later statements the driver only tells that
 * there is no connection. What is returned ends the watch.
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
  connection?.on('errorMessage', hear).on('error', lose).on('end', end)
  return () => connection?.off('errorMessage', hear).off('error', lose).off('end', end)
}

/**
 * Once the signal is aborted nothing of the transaction is to take effect, and a statement of the handler's that is
 * never answered (the connection is half open) must not hold it for ever. What is returned ends the watch.
 */
function endWithSignal(client: PoolClient, signal: AbortSignal): () => void {
  const end = () => void (client as PoolClient & pg.Client).end().catch(() => {})
  signal.addEventListener('abort', end)
  return () => signal.removeEventListener('abort', end)
}

function nameOf({ rounds }: Performance): string {
  return String(rounds[0]!.fence)
}

/**
 * The completion waits for a producer as long as we say, whatever the handler has set for its own statements; it holds rows of
 * ours until the COMMIT, which has to come; and its ids are in the driver's encoding: in another the server would take them for
 * other ids.
 *
 * That fails where a statement of the handler's did which it swallowed, or did not await: nothing of the transaction can take
 * effect, so its parts may be tried apart. Where the handler has committed by itself, they may not: each would write once more.
 */
async function prepareToStore(
  { database, lockTimeout }: BatchSettings,
  client: PoolClient,
  performance: Performance,
): Promise<void> {
  const round = await readyToComplete(database, client, lockTimeout).catch((error: Error) => {
    if (isConnectionFailure(error)) throw error
    throw new Error(`the handler left its transaction aborted: ${error.message}`, { cause: error })
  })
  if (round === nameOf(performance)) return
  const error = new Error('the handler ended its transaction itself: leave COMMIT and ROLLBACK to the worker')
  throw new Rollback({ kind: 'failed', failed: failAll(performance.rounds, error) })
}

/** All or nothing: one lost claim undoes what the handler wrote for the others too. */
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
