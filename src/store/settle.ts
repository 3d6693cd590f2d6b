import type { Database, Queryable } from '../postgres/database.ts'
import type { Round } from './claim.ts'

/**
 * What became of a round that was not simply finished: it waits `again`; it is still `held`, since a producer's
 * open transaction has its row; or the claim was `lost`.
 */
export interface Exception {
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
  const cuts = [
    rounds.map((round) => round.cut?.score ?? null),
    rounds.map((round) => round.cut?.seq ?? null),
  ]
  return settle(database, 'complete', holder, rounds, cuts)
}

export function fail(database: Database, holder: Holder, failures: readonly Failure[]): Promise<Exception[]> {
  const rounds = failures.map((failure) => failure.round)
  const columns = [failures.map((failure) => failure.error), failures.map((failure) => failure.retryIn)]
  return settle(database, 'fail', holder, rounds, columns)
}

export function release(database: Database, holder: Holder, rounds: readonly Round[]): Promise<Exception[]> {
  return settle(database, 'release', holder, rounds, [])
}

async function settle(
  database: Database,
  name: string,
  { processId, queueId, tx }: Holder,
  rounds: readonly Round[],
  columns: readonly unknown[][],
): Promise<Exception[]> {
  const ids = rounds.map((round) => round.id)
  const fences = rounds.map((round) => round.fence)
  const values = [queueId, processId, ids, fences, ...columns, tx !== undefined]
  const rows = await database.call<Exception & { perform_in: number | null }>(name, values, tx)
  return rows.map((row) => ({ ...row, performIn: row.perform_in }))
}
