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
import { cutsOf, type Exception, exceptionOf } from './settle.ts'

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

/** An exception, as JSON; or the place of a wish, from 1, and what is told of its claim. */
type AnswerRow = readonly [
  exception: string | null,
  place: number | null,
  id: string | null,
  fence: number | null,
  performIn: number | null,
  retryCount: number | null,
  crashes: number | null,
  rescued: boolean | null,
  error: string | null,
  payload: string | null,
  score: string | null,
  seq: number | null,
  cut: boolean | null,
  passed: boolean | null,
]

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
    ? await database.query<AnswerRow>(text, values, tx, { lists: true })
    : await database.alone<AnswerRow>(text, values, { lists: true })
  return { exceptions: exceptionsIn(rows), claims: claimsOf(rows, wishes) }
}

/** Exceptions are rare, and so one column of the answer, which has a row for each payload claimed. */
function completing(prefix: string, [queueIds, ...columns]: readonly string[]): string {
  return `SELECT pg_catalog.row_to_json(c)::text AS exception, NULL::integer AS place, NULL AS id, NULL::bigint AS fence,
      NULL::bigint AS perform_in, NULL::integer AS retry_count, NULL::smallint AS crashes, NULL::boolean AS rescued,
      NULL AS error, NULL AS payload, NULL AS score, NULL::bigint AS seq, NULL::boolean AS cut, NULL::boolean AS passed
    FROM ${prefix}.complete(${queueIds}, $1, ${columns.join(', ')}, false) c`
}

function claiming(prefix: string, columns: readonly string[]): string {
  return `SELECT NULL AS exception, c.* FROM ${prefix}.claim($1, ${columns.join(', ')}) c`
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

function exceptionsIn(rows: readonly AnswerRow[]): Exception[] {
  return rows.filter((row) => row[0] !== null).map((row) => exceptionOf(JSON.parse(row[0]!)))
}

function claimsOf(rows: readonly AnswerRow[], wishes: readonly Wish[]): Claim[] {
  const answers = wishes.map((): ClaimRow[] => [])
  for (const row of rows) {
    const place = row[1]
    if (place !== null) answers[place - 1]!.push(claimRowOf(row))
  }
  return answers.map(toClaim)
}

function claimRowOf(row: AnswerRow): ClaimRow {
  const [, , id, fence, perform_in, retry_count, crashes, rescued, error, payload, score, seq, cut, passed] =
    row
  return { id, fence, perform_in, retry_count, crashes, rescued, error, payload, score, seq, cut, passed }
}
