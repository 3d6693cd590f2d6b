import { CrashLimitError, EmptyJobError } from '../../errors.ts'
import type { Round } from '../../store/claim.ts'
import { sortByExpiry } from '../../store/left-out.ts'
import type { Claimant } from '../settling/claimant.ts'
import type { Outcome, Settler } from '../settling/outcome.ts'
import { accept } from './acceptance.ts'
import { ended, failAll, failure } from './ending.ts'
import { type Performance, perform } from './perform.ts'
import { type BatchSettings, transact } from './transaction.ts'

/** What comes after a batch. */
export interface Aftermath {
  /** Parts to perform once more, each by itself, because their joint transaction could not be committed. */
  readonly parts: readonly Round[][]
  /** Why the batch could not begin, if its transaction could not. */
  readonly unbegun: { readonly error: unknown } | undefined
}

/** Nearly always. */
const DONE: Aftermath = { parts: [], unbegun: undefined }

/**
 * Performs a claimed batch and hands in its outcome to be stored. What has expired is left out before anything looks at it, and
 * again after each step that takes its time: a payload must not be handed over after its time, but die as one that its schema
 * refused neither.
 */
export async function performBatch(
  settings: BatchSettings,
  settler: Settler,
  claimant: Claimant,
  performance: Performance,
): Promise<Aftermath> {
  const { queue, rounds } = leaveOutExpired(settings, settler, claimant, performance)
  const isSound = ({ payloads, crashes }: Round) => payloads.length > 0 && crashes < queue.maxCrashes
  const sound = rounds.filter(isSound)
  if (sound.length < rounds.length) {
    const others = rounds.filter((round) => !isSound(round))
    settler.settle(claimant, withoutHandler(performance, others))
  }
  const acceptance = queue.schema && (await accept(queue.schema, performance, sound))
  if (acceptance && acceptance.accepted.length < sound.length)
    settler.settle(claimant, { completed: [], failed: acceptance.failed, released: acceptance.released })
  const accepted = { ...performance, rounds: acceptance?.accepted ?? sound }
  const ours = acceptance ? leaveOutExpired(settings, settler, claimant, accepted) : accepted
  if (ours.rounds.length === 0) return DONE
  if (queue.transactional) return performInTransaction(settings, settler, claimant, ours)
  const failed = await perform(ours, claimant, settings, undefined)
  settler.settle(claimant, ended(ours, failed))
  return DONE
}

/** Ends rounds of which nothing is left, without the handler. */
function leaveOutExpired(
  { clock }: BatchSettings,
  settler: Settler,
  claimant: Claimant,
  performance: Performance,
): Performance {
  const { fresh, expired } = sortByExpiry(performance.rounds, clock.now())
  if (expired.length > 0) settler.settle(claimant, { completed: expired, failed: [], released: [] })
  return fresh === performance.rounds ? performance : { ...performance, rounds: fresh }
}

/**
 * A round that crashed too often has failed, whether its payloads are here or not. So has a round without payloads: calling
 * it completed could hide that they were lost.
 */
function withoutHandler({ queue, describe }: Performance, rounds: readonly Round[]): Outcome {
  const errorOf = ({ crashes }: Round) =>
    crashes < queue.maxCrashes ? new EmptyJobError() : new CrashLimitError(crashes)
  const failed = rounds.map((round) => failure(queue, round, errorOf(round), describe))
  return { completed: [], failed, released: [] }
}

/**
 * Stores the handler's writes and the completion in one transaction: exactly once. If nothing can be stored because a
 * producer's open transaction holds the row, the round is released and performed again; it has not failed. If the server
 * refuses the transaction for any other reason, the round has failed, as if its handler had thrown: it might be refused for
 * ever. Of several ids, one may be at fault. Halves of them, halved again, find it, and the others need not fail with it.
 *
 * If the connection was lost, the rounds are treated as those of a process that died with them (R10). The process lives, so
 * it reports that itself. Otherwise the rounds would have to be found claimed by a process that is gone: this process would
 * have to register again, and they would wait until everything else it has in progress has ended.
 */
async function performInTransaction(
  settings: BatchSettings,
  settler: Settler,
  claimant: Claimant,
  performance: Performance,
): Promise<Aftermath> {
  const { rounds } = performance
  const ending = await transact(settings, claimant, performance)
  if (ending.kind === 'stored') settler.stored(claimant, ending.outcome, ending.leftovers)
  else if (ending.kind === 'lost') settler.crashed(claimant, rounds)
  else if (ending.kind === 'failed') settler.settle(claimant, ended(performance, ending.failed))
  else if (ending.kind === 'disowned') settler.settle(claimant, disowned(performance, ending.ids))
  else if (ending.kind === 'again') settler.settle(claimant, released(rounds), ending.uncertain)
  else if (ending.kind === 'expired') {
    const left = leaveOutExpired(settings, settler, claimant, performance)
    if (left.rounds.length > 0) return performInTransaction(settings, settler, claimant, left)
  } else if (ending.kind === 'unbegun') {
    settler.settle(claimant, released(rounds))
    return { parts: [], unbegun: ending }
  } else if (rounds.length > 1) return { parts: halves(rounds), unbegun: undefined }
  else settler.settle(claimant, ended(performance, failAll(rounds, ending.error)))
  return DONE
}

/**
 * After the rollback, all rows are as they were. So if the claim still stands, the handler's own transaction changed its
 * row, and would do so each time: that is a failure (R6). If it doesn't, nothing of the round is stored.
 */
function disowned({ queue, rounds, describe }: Performance, ids: ReadonlySet<string>): Outcome {
  const error = new Error(
    'the job was not held any more when its handler had ended: others have it, or the handler’s transaction changed its row',
  )
  const failed = rounds.filter(({ id }) => ids.has(id)).map((round) => failure(queue, round, error, describe))
  return { completed: [], failed, released: rounds.filter(({ id }) => !ids.has(id)) }
}

function released(rounds: readonly Round[]): Outcome {
  return { completed: [], failed: [], released: rounds }
}

function halves<T>(all: readonly T[]): T[][] {
  const half = Math.ceil(all.length / 2)
  return [all.slice(0, half), all.slice(half)]
}
