import type { Database } from '../postgres/database.ts'
import {
  type Claim,
  type ClaimRow,
  type Cursor,
  JSON_AS_TEXT,
  type LaneKey,
  type Round,
  toClaim,
} from './claim.ts'
import type { Exception } from './settle.ts'

/** A round that succeeded. */
export interface DoneRound {
  readonly queueId: number
  readonly round: Round
}

/** What is asked of a lane: so many jobs from its cursor on. */
export interface Wish {
  readonly key: LaneKey
  readonly cursor: Cursor
  readonly count: number
  readonly maxPayloads: number | undefined
}

export interface Exchanged {
  /** Of the rounds that succeeded, those that were not simply finished. */
  readonly exceptions: readonly (Exception & { readonly queueId: number })[]
  /** What each wish has brought. */
  readonly claims: readonly Claim[]
}

interface ExchangeRow extends ClaimRow {
  readonly place: number | null
  readonly outcome: Exception['outcome']
  readonly queue_id: number
  readonly shard: number | null
  readonly lane: number | null
}

/** Completes rounds and claims others: one call, one commit. */
export async function exchange(
  database: Database,
  processId: number,
  done: readonly DoneRound[],
  wishes: readonly Wish[],
): Promise<Exchanged> {
  const values = [
    processId,
    done.map(({ queueId }) => queueId),
    done.map(({ round }) => round.id),
    done.map(({ round }) => round.fence),
    done.map(({ round }) => round.cut?.score ?? null),
    done.map(({ round }) => round.cut?.seq ?? null),
    wishes.map(({ key }) => key.queueId),
    wishes.map(({ key }) => key.shard),
    wishes.map(({ key }) => key.lane),
    wishes.map(({ count }) => count),
    wishes.map(({ maxPayloads }) => maxPayloads ?? null),
    wishes.map(({ cursor }) => cursor.after),
    wishes.map(({ cursor }) => cursor.afterId),
  ]
  const rows = await database.call<ExchangeRow>('exchange', values, undefined, JSON_AS_TEXT)
  const answers = wishes.map((): ExchangeRow[] => [])
  const exceptions: Exchanged['exceptions'][number][] = []
  for (const row of rows) {
    if (row.place === null) exceptions.push(exceptionOf(row))
    else answers[row.place - 1]!.push(row)
  }
  return { exceptions, claims: answers.map(toClaim) }
}

function exceptionOf({ id, outcome, queue_id, shard, lane, perform_in }: ExchangeRow) {
  return { id: id!, outcome, queueId: queue_id, shard, lane, performIn: perform_in }
}
