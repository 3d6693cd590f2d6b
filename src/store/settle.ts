import type { Database, Queryable } from '../postgres/database.ts'
import type { Round } from './claim.ts'
import { storable } from './encoding.ts'

/**
 * What became of a round that was not simply finished: it waits `again`; it is still `held`, since a producer's
 * open transaction has its row; or the claim was `lost`.
 */
export interface Exception {
  readonly queueId: number
  readonly id: string
  readonly outcome: 'again' | 'held' | 'lost'
  readonly shard: number | null
  readonly lane: number | null
  /** Microseconds since 1970, of one that waits again. */
  readonly performIn: number | null
}

/** A failed round: `retryIn` seconds until the next try, or null where the lowest payload dies. */
export interface Failure {
  readonly round: Round
  readonly error: string
  readonly retryIn: number | null
}

/** The process and queue of the rounds, and the transaction to settle them in: only there locked rows are waited for. */
export interface Holder {
  readonly processId: number
  readonly queueId: number
  readonly tx?: Queryable
}

export function complete(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Exception[]> {
  return settle(database, 'complete', holder, rounds, cutsOf(rounds))
}

/** Where rounds left payloads behind: scores and places; two nulls where none did, as in most queues. */
export function cutsOf(rounds: readonly Round[]): [(number | null)[] | null, (number | null)[] | null] {
  if (rounds.every((round) => round.cut === undefined)) return [null, null]
  return [rounds.map((round) => round.cut?.score ?? null), rounds.map((round) => round.cut?.seq ?? null)]
}

export async function fail(
  database: Database,
  holder: Holder,
  failures: readonly Failure[],
): Promise<Exception[]> {
  const rounds = failures.map((failure) => failure.round)
  const errors = await storable(
    database,
    failures.map((failure) => failure.error),
    holder.tx,
  )
  return settle(database, 'fail', holder, rounds, [[...errors], failures.map((failure) => failure.retryIn)])
}

export function release(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Exception[]> {
  return settle(database, 'release', holder, rounds, [])
}

async function settle(
  database: Database,
  name: string,
  { processId, queueId, tx }: Holder,
  rounds: readonly Round[],
  columns: readonly (unknown[] | null)[],
): Promise<Exception[]> {
  const queueIds = rounds.map(() => queueId)
  const ids = rounds.map((round) => round.id)
  const fences = rounds.map((round) => round.fence)
  const values = [queueIds, processId, ids, fences, ...columns, tx !== undefined]
  return (await database.call<ExceptionRow>(name, values, tx)).map(exceptionOf)
}

/** As complete, fail and release return it. */
export interface ExceptionRow extends Pick<Exception, 'outcome' | 'shard' | 'lane'> {
  readonly queue_id: number
  readonly id: string
  readonly perform_in: number | null
}

export function exceptionOf({ queue_id, id, outcome, shard, lane, perform_in }: ExceptionRow): Exception {
  return { queueId: queue_id, id, outcome, shard, lane, performIn: perform_in }
}
