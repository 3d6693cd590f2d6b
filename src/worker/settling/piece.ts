import type { Database, Queryable } from '../../postgres/database.ts'
import type { Round } from '../../store/claim.ts'
import type { Ended } from '../../store/exchange.ts'
import { answer, complete, crash, discard, fail, type Leftover, release } from '../../store/settle.ts'
import type { Claimant } from './claimant.ts'
import { type Load, limited, takeLoad } from './load.ts'
import type { FailedRound } from './outcome.ts'

/** Rounds of one batch with the same kind of outcome. */
export interface Piece extends Omit<Ended, 'kind'> {
  readonly claimant: Claimant
  /** `die`: the rounds failed, and a payload of each goes to the morgue. `discard`: all of them do. */
  readonly kind: Ended['kind'] | 'die' | 'discard' | 'crash'
  /** One for each round that did not succeed, or none. */
  readonly failures: readonly FailedRound[]
  /** An earlier try may have been stored though its answer was lost: then a claim that is gone counts as stored. */
  readonly uncertain: boolean
  /**
   * It must go alone: it may be what makes everything that goes with it fail, or its id may be in progress again, and would
   * be in one call twice.
   */
  readonly alone: boolean
  /** Tries that found the row locked, and skipped it. */
  readonly skips: number
  /** Tries that waited for the row in vain. */
  readonly waits: number
  /** Called after each try, whatever its result. */
  readonly answered: (() => void) | undefined
}

/** A piece that goes to the server together with others. */
export type Travelling = Piece & Ended

/** How rounds are stored that did not succeed. */
const KINDS: readonly (readonly [Piece['kind'], readonly FailedRound['end'][]])[] = [
  ['die', ['die']],
  ['discard', ['discard']],
  ['fail', ['fail', 'snooze']],
  ['complete', ['drop']],
]

/** Rounds that did not succeed, by how that is stored. */
export function byKind(failed: readonly FailedRound[]): (readonly [Piece['kind'], readonly FailedRound[]])[] {
  if (failed.length === 0) return []
  return KINDS.map(([kind, ends]) => [kind, failed.filter(({ end }) => ends.includes(end))])
}

/** How rounds are stored that succeeded: all of a queue that keeps results have one. */
export function kindOfSuccess(completed: readonly Round[]): 'complete' | 'answer' {
  return completed[0]?.kept ? 'answer' : 'complete'
}

/** Whether payloads go to the morgue. */
export function buries({ kind }: Piece): boolean {
  return kind === 'die' || kind === 'discard'
}

/** Whether it may go with others. A death may have to wait for a row of the morgue, and a crash takes several statements. */
export function isTravelling(piece: Piece): piece is Travelling {
  return !piece.alone && !buries(piece) && piece.kind !== 'crash'
}

/**
 * Most to store in one call, and the characters of its errors and results. With so many jobs, the fixed cost of a call is small for
 * each.
 */
export const MOST_TOLD: Load = { jobs: 400, size: 1_000_000 }

/** Takes as many pieces from the start as one call may carry, of `most` jobs at most; at least one. */
export function takePieces<P extends Piece>(pieces: P[], most = MOST_TOLD.jobs): P[] {
  return takeLoad(pieces, limited(MOST_TOLD, most), ({ kind, rounds, failures }) => ({
    jobs: rounds.length,
    size: kind === 'answer' ? sizeOfResults(rounds) : sizeOfErrors(failures),
  }))
}

function sizeOfErrors(failures: readonly FailedRound[]): number {
  return failures.reduce((size, { error }) => size + (error?.length ?? 0), 0)
}

function sizeOfResults(rounds: readonly Round[]): number {
  return rounds.reduce((size, { kept }) => size + (kept?.json.length ?? 0), 0)
}

/** How many jobs the pieces have. */
export function jobsOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { rounds }) => sum + rounds.length, 0)
}

/** How many payloads the jobs of the pieces were handed. */
export function payloadsOf(pieces: readonly Piece[]): number {
  return pieces.flatMap(({ rounds }) => rounds).reduce((sum, { payloads }) => sum + payloads.length, 0)
}

/** Stores pieces of one kind, process and queue in a transaction that waits for their rows. */
export function storeIn(
  database: Database,
  tx: Queryable,
  pieces: readonly Pick<Piece, 'kind' | 'claimant' | 'queueId' | 'rounds' | 'failures'>[],
): Promise<Leftover[]> {
  const { kind, claimant, queueId } = pieces[0]!
  const holder = { processId: claimant.processId, queueId, tx }
  const rounds = pieces.flatMap((piece) => piece.rounds)
  if (kind === 'complete') return complete(database, holder, rounds)
  if (kind === 'answer') return answer(database, holder, rounds)
  if (kind === 'release') return release(database, holder, rounds)
  if (kind === 'crash') return crash(database, holder, rounds)
  const failures = pieces.flatMap((piece) => piece.failures)
  return kind === 'discard' ? discard(database, holder, failures) : fail(database, holder, failures)
}
