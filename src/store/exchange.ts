import type { Database, Queryable } from '../postgres/database.ts'
import {
  type Claim,
  type ClaimRow,
  type Cursor,
  type LaneKey,
  type Round,
  type RoundLimits,
  toClaim,
} from './claim.ts'
import { cutsOf, type Exception, type ExceptionRow, exceptionOf } from './settle.ts'

/** A round that succeeded. */
export interface DoneRound {
  readonly queueId: number
  readonly round: Round
}

/** What is asked of a lane: so many jobs from its cursor on. */
export interface Wish extends RoundLimits {
  readonly key: LaneKey
  readonly cursor: Cursor
  readonly count: number
}

/**
 * Bytes of payloads, as JSON text, that the answer to one call brings at most. What is beyond is claimed, too, and loaded
 * before it begins: so an answer always fits memory and the time a call may take.
 */
export const MOST_BYTES = 4 * 1024 * 1024

export interface Exchanged {
  /** Of the rounds that succeeded, those that were not simply finished. */
  readonly exceptions: readonly Exception[]
  /** What each wish has brought. */
  readonly claims: readonly Claim[]
}

/** An exception where `place`, that of its wish from 1, is null. */
type AnswerRow = { readonly place: number | null } & ClaimRow & ExceptionRow

/**
 * Completes rounds and claims others: one statement, one commit. Completions come first, so that what waits again may be
 * taken at once. No deadlock comes of doing both: neither waits for a row. In a transaction of the caller's where one is
 * given.
 */
export async function exchange(
  database: Database,
  processId: number,
  done: readonly DoneRound[],
  wishes: readonly Wish[],
  tx?: Queryable,
): Promise<Exchanged> {
  const values: unknown[] = [processId]
  const placed = (columns: readonly unknown[]) => columns.map((column) => `$${values.push(column)}`)
  const parts: string[] = []
  if (done.length > 0) parts.push(completing(database.prefix, placed(columnsOfDone(done))))
  if (wishes.length > 0) parts.push(claiming(database.prefix, placed(columnsOf(wishes))))
  const text = parts.join(' UNION ALL ')
  const rows = tx
    ? await database.query<AnswerRow>(text, values, tx)
    : await database.alone<AnswerRow>(text, values)
  const exceptions = rows.filter(({ place }) => place === null).map(exceptionOf)
  return { exceptions, claims: claimsOf(rows, wishes) }
}

/** Rows of both kinds have the columns of both. */
function completing(prefix: string, [queueIds, ...columns]: readonly string[]): string {
  return `SELECT NULL::integer AS place, c.id, NULL::bigint AS fence, c.perform_in, NULL::integer AS retry_count,
      NULL::smallint AS crashes, NULL::boolean AS rescued, NULL AS error, NULL AS payload,
      NULL AS score, NULL::bigint AS seq, NULL::boolean AS cut, NULL::boolean AS passed,
      c.queue_id, c.outcome, c.shard, c.lane
    FROM ${prefix}.complete(${queueIds}, $1, ${columns.join(', ')}, false) c`
}

function claiming(prefix: string, columns: readonly string[]): string {
  return `SELECT c.*, NULL::integer AS queue_id, NULL AS outcome, NULL::integer AS shard, NULL::smallint AS lane
    FROM ${prefix}.claim($1, ${columns.join(', ')}) c`
}

function columnsOfDone(done: readonly DoneRound[]): (unknown[] | null)[] {
  const rounds = done.map(({ round }) => round)
  return [
    done.map(({ queueId }) => queueId),
    rounds.map(({ id }) => id),
    rounds.map(({ fence }) => fence),
    ...cutsOf(rounds),
  ]
}

function columnsOf(wishes: readonly Wish[]): unknown[] {
  return [
    wishes.map(({ key }) => key.queueId),
    wishes.map(({ key }) => key.shard),
    wishes.map(({ key }) => key.lane),
    wishes.map(({ count }) => count),
    wishes.map(({ maxPayloads }) => maxPayloads ?? null),
    wishes.map(({ maxBytes }) => maxBytes),
    wishes.map(({ cursor }) => cursor.after),
    wishes.map(({ cursor }) => cursor.afterId),
    MOST_BYTES,
  ]
}

function claimsOf(rows: readonly AnswerRow[], wishes: readonly Wish[]): Claim[] {
  const answers = wishes.map((): AnswerRow[] => [])
  for (const row of rows) if (row.place !== null) answers[row.place - 1]!.push(row)
  return answers.map(toClaim)
}
