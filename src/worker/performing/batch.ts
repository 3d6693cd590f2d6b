import { CrashLimitError, EmptyJobError } from '../../errors.ts'
import type { Round } from '../../store/claim.ts'
import type { Claimant, Completer } from '../settling/completer.ts'
import type { Outcome } from '../settling/outcome.ts'
import { ended, failAll, failure } from './ending.ts'
import { type Performance, perform } from './perform.ts'
import { type BatchSettings, transact } from './transaction.ts'

/** What is to be performed once more, nearly always. */
const NONE: readonly Round[][] = []

/**
 * Performs a claimed batch and hands its outcome in, to be stored. Returns parts of it that are to be performed once more,
 * each by itself: together their transaction could not be committed.
 */
export async function performBatch(
  settings: BatchSettings,
  completer: Completer,
  claimant: Claimant,
  performance: Performance,
): Promise<readonly Round[][]> {
  const { queue, rounds } = performance
  const isSound = ({ payloads, crashes }: Round) => payloads.length > 0 && crashes < queue.maxCrashes
  const sound = rounds.filter(isSound)
  if (sound.length < rounds.length) {
    const others = rounds.filter((round) => !isSound(round))
    completer.settle(claimant, withoutHandler(performance, others))
  }
  if (sound.length === 0) return NONE
  const ours = sound.length < rounds.length ? { ...performance, rounds: sound } : performance
  if (queue.transactional) return performInTransaction(settings, completer, claimant, ours)
  const failed = await perform(ours, claimant, settings, undefined)
  completer.settle(claimant, ended(ours, failed))
  return NONE
}

/**
 * One that crashed too often has failed, whether its payloads are here or not; and so has one that has none: to call it done
 * could hide that they were lost.
 */
function withoutHandler({ queue, describe }: Performance, rounds: readonly Round[]): Outcome {
  const errorOf = ({ crashes }: Round) =>
    crashes < queue.maxCrashes ? new EmptyJobError() : new CrashLimitError(crashes)
  const failed = rounds.map((round) => failure(queue, round, errorOf(round), describe))
  return { completed: [], failed, released: [] }
}

/**
 * The handler's writes and the completion in one transaction: exactly once. Where nothing can be stored, because
 * a producer's open transaction holds the row, the round is released and performed again; it has not failed. Where the
 * server refuses it for any other reason, it has, like one whose handler threw: it may be so for ever. Of several ids one
 * may be at fault; halves of them, halved again, find it, and the others need not fail with it.
 *
 * Where its connection was lost, the rounds are as those of a process that died with them (R10). The process lives, so it
 * says so itself. Were they left to be found claimed by somebody who is gone, this process would have to register anew,
 * and they would wait for the end of whatever else it has in work.
 */
async function performInTransaction(
  settings: BatchSettings,
  completer: Completer,
  claimant: Claimant,
  performance: Performance,
): Promise<readonly Round[][]> {
  const { rounds } = performance
  const ending = await transact(settings, claimant, performance)
  if (ending.kind === 'stored') completer.stored(claimant, ending.outcome, ending.leftovers)
  else if (ending.kind === 'lost') completer.crashed(claimant, rounds)
  else if (ending.kind === 'failed') completer.settle(claimant, ended(performance, ending.failed))
  else if (ending.kind === 'disowned') completer.settle(claimant, disowned(performance, ending.ids))
  else if (ending.kind === 'again')
    completer.settle(claimant, { completed: [], failed: [], released: rounds }, ending.uncertain)
  else if (rounds.length > 1) return halves(rounds)
  else completer.settle(claimant, ended(performance, failAll(rounds, ending.error)))
  return NONE
}

/**
 * Rolled back, all rows are as they were. So where the claim stands, it was the handler's own transaction that changed its row,
 * and would do so each time: that is a failure (R6). Where it doesn't, nothing of it is stored.
 */
function disowned({ queue, rounds, describe }: Performance, ids: ReadonlySet<string>): Outcome {
  const error = new Error(
    'the job was not held any more when its handler had ended: others have it, or the handler’s transaction changed its row',
  )
  const failed = rounds.filter(({ id }) => ids.has(id)).map((round) => failure(queue, round, error, describe))
  return { completed: [], failed, released: rounds.filter(({ id }) => !ids.has(id)) }
}

function halves<T>(all: readonly T[]): T[][] {
  const half = Math.ceil(all.length / 2)
  return [all.slice(0, half), all.slice(half)]
}
