import type pg from 'pg'
import type { PoolClient } from 'pg'
import { CrashLimitError, EmptyJobError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'
import { isConnectionFailure, isRefusedLock } from '../postgres/failure.ts'
import type { Queue } from '../queue.ts'
import type { Round } from '../store/claim.ts'
import { complete, type Exception, fail } from '../store/settle.ts'
import type { ServerMiddleware } from './middleware.ts'
import { type FailedRound, failure, type Outcome, outcomeOf } from './outcome.ts'
import { type Failed, type Performance, perform } from './perform.ts'
import type { Claimant, Settlements } from './settlements.ts'

/** Why a signal is aborted when it is not the handler's fault: what has not ended goes back unchanged. */
export class GivenBack extends Error {
  override readonly name = 'GivenBack'
}

export interface BatchSettings {
  readonly database: Database
  readonly middleware: readonly ServerMiddleware[]
  readonly logger: Logger
  /** ms a completion in a handler's transaction waits for a producer's at most. */
  readonly lockTimeout: number
}

/** Works a claimed batch off and hands its outcome in, to be stored. */
export async function workOff(
  settings: BatchSettings,
  settlements: Settlements,
  claimant: Claimant,
  performance: Performance,
): Promise<void> {
  const { queue, rounds } = performance
  const isSound = ({ payloads, crashes }: Round) => payloads.length > 0 && crashes < queue.maxCrashes
  const sound = rounds.filter(isSound)
  if (sound.length < rounds.length) {
    const others = rounds.filter((round) => !isSound(round))
    settlements.settle(claimant, withoutHandler(queue, others))
  }
  if (sound.length === 0) return
  const ours = { ...performance, rounds: sound }
  if (queue.transactional) return performInTransaction(settings, settlements, claimant, ours)
  const failed = await perform(ours, settings.middleware, settings.logger, undefined)
  settlements.settle(claimant, ended(ours, failed))
}

/** One that crashed too often has failed, and so has one without payloads: to call it done could hide that they were lost. */
function withoutHandler(queue: Queue, rounds: readonly Round[]): Outcome {
  const errorOf = ({ payloads, crashes }: Round) =>
    payloads.length === 0 ? new EmptyJobError() : new CrashLimitError(crashes)
  const failed = rounds.map((round) => failure(queue, round, errorOf(round)))
  return { completed: [], failed, released: [] }
}

/** R15: what did not succeed after its signal was aborted for our sake has not failed. */
function ended({ queue, rounds, abort }: Performance, failed: Failed): Outcome {
  const outcome = outcomeOf(queue, rounds, failed)
  if (!(abort.reason instanceof GivenBack)) return outcome
  return { completed: outcome.completed, failed: [], released: outcome.failed.map(({ round }) => round) }
}

/** How a handler's transaction ended. */
type Ending =
  | { readonly kind: 'stored'; readonly outcome: Outcome; readonly exceptions: readonly Exception[] }
  | { readonly kind: 'failed'; readonly failed: Failed }
  | { readonly kind: 'again'; readonly uncertain: boolean }

/**
 * The handler's writes and the completion in one transaction: exactly once. Where nothing can be stored, because
 * a producer's open transaction holds the row, the round is given back and performed again; it has not failed.
 */
async function performInTransaction(
  settings: BatchSettings,
  settlements: Settlements,
  claimant: Claimant,
  performance: Performance,
): Promise<void> {
  const ending = await transact(settings, claimant, performance)
  if (ending.kind === 'stored') return settlements.stored(claimant, ending.outcome, ending.exceptions)
  if (ending.kind === 'failed') return settlements.settle(claimant, ended(performance, ending.failed))
  settlements.settle(claimant, { completed: [], failed: [], released: performance.rounds }, ending.uncertain)
}

/** Thrown to roll back. */
class Rollback extends Error {
  readonly ending: Ending

  constructor(ending: Ending) {
    super('rolled back')
    this.ending = ending
  }
}

async function transact(
  settings: BatchSettings,
  claimant: Claimant,
  performance: Performance,
): Promise<Ending> {
  const { database, logger, lockTimeout, middleware } = settings
  const round = String(performance.rounds[0]!.fence)
  // Gone with the transaction it was set in: so it shows whether the handler has ended that one by itself.
  const begin = `SET LOCAL lockstep.round = '${round}'`
  try {
    return await database.transaction(async (client) => {
      const stay = endWithSignal(client, performance.abort.signal)
      try {
        // The lease may have ended while the server was asked to begin: others may have the ids by now.
        if (performance.abort.signal.aborted) throw new Rollback({ kind: 'again', uncertain: false })
        const failed = await perform(performance, middleware, logger, client)
        const outcome = ended(performance, failed)
        if (outcome.completed.length === 0) throw new Rollback({ kind: 'failed', failed })
        if (outcome.released.length > 0) throw new Rollback({ kind: 'again', uncertain: false })
        await requireSameTransaction(database, client, round)
        await database.query(`SET LOCAL lock_timeout = ${lockTimeout}`, [], client)
        const exceptions = await storeInTransaction(database, client, claimant, outcome)
        return { kind: 'stored', outcome, exceptions }
      } finally {
        stay()
      }
    }, begin)
  } catch (error) {
    if (error instanceof Rollback) return error.ending
    if (error instanceof BrokenTransaction)
      return { kind: 'failed', failed: failAll(performance.rounds, error) }
    if (!isRefusedLock(error))
      logger.warn({ error: (error as Error).message }, 'a handler’s transaction could not be committed')
    // Whether a COMMIT came through whose answer was lost, giving back will show: then there is nothing to give.
    return { kind: 'again', uncertain: isConnectionFailure(error) }
  }
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

function failAll(rounds: readonly Round[], error: unknown): Failed {
  return new Map(rounds.map(({ id }) => [id, error]))
}

class BrokenTransaction extends Error {}

async function requireSameTransaction(database: Database, client: PoolClient, round: string): Promise<void> {
  const rows = await database
    .query<{ round: string | null }>("SELECT current_setting('lockstep.round', true) AS round", [], client)
    .catch((error: Error) => {
      if (isConnectionFailure(error)) throw error
      throw new BrokenTransaction(`the handler left its transaction aborted: ${error.message}`, {
        cause: error,
      })
    })
  if (rows[0]!.round === round) return
  throw new BrokenTransaction(
    'the handler ended its transaction itself: leave COMMIT and ROLLBACK to the worker',
  )
}

/** All or nothing: one lost claim undoes what the handler wrote for the others too. */
async function storeInTransaction(
  database: Database,
  client: PoolClient,
  { served, processId }: Claimant,
  { completed, failed }: { completed: readonly Round[]; failed: readonly FailedRound[] },
): Promise<Exception[]> {
  const holder = { processId, queueId: served.queueId, tx: client }
  const exceptions = await complete(database, holder, completed)
  if (failed.length > 0) exceptions.push(...(await fail(database, holder, failed)))
  if (exceptions.some(({ outcome }) => outcome === 'lost'))
    throw new Rollback({ kind: 'again', uncertain: false })
  return exceptions
}
