import type { Database, Queryable } from '../postgres/database.ts'
import {
  type Claim,
  type Cursor,
  type LaneKey,
  NO_PAYLOADS,
  onlyOne,
  type PayloadSet,
  type ReadPayload,
  type Round,
  type RoundLimits,
  type StoredPayload,
  setOf,
} from './claim.ts'
import { type Spots, spotsJson, type Waits } from './limits.ts'
import { answersOf, cutsOf, type Failure, type Leftover, leftoverOf, reasonsOf } from './settle.ts'

/** The order in which ends are stored. */
const KINDS = ['complete', 'answer', 'fail', 'release'] as const
const FUNCTIONS = {
  complete: 'complete',
  answer: 'complete_with_results',
  fail: 'fail_claims',
  release: 'release',
} as const

/** Rounds of a queue that ended in the same way. `answer`: they are complete, and their results are kept. */
export interface Ended {
  readonly queueId: number
  readonly kind: (typeof KINDS)[number]
  readonly rounds: readonly Round[]
  /** One for each failed round; excludes rounds with a death. */
  readonly failures: readonly Failure[]
}

/** A request for `count` jobs of a lane, from its cursor on. */
export interface Wish extends RoundLimits {
  readonly key: LaneKey
  readonly cursor: Cursor
  readonly count: number
  /** Set if the caller keeps track of what limits keep waiting. */
  readonly spots?: Spots | undefined
}

/**
 * Most bytes of payloads, as JSON text, in the answer to one call. Payloads beyond that are claimed too, but loaded before
 * their round begins, so that an answer always fits memory and the time a call may take.
 */
export const MOST_BYTES = 4 * 1024 * 1024

export interface Exchanged {
  /** The ended rounds that were not simply finished, including all that failed or were released. */
  readonly leftovers: readonly Leftover[]
  /** One claim for each wish. */
  readonly claims: readonly Claim[]
}

/**
 * An exception as JSON; or a payload of a claimed job. Only the first row of a job has its id, and describes it. A row with a
 * place and no id is the next job to come; its payload says which limits kept jobs waiting.
 */
export type AnswerRow = readonly [
  exception: string | null,
  /** Of a wish, from 1. */
  place: number | null,
  id: string | null,
  fence: number | null,
  performIn: number | null,
  /** null from here to `error`: the value of a job that never ran. */
  retryCount: number | null,
  crashes: number | null,
  rescued: boolean | null,
  error: string | null,
  payload: string | null,
  headers: string | null,
  /** Text with all digits, whatever the session's settings. */
  score: string | null,
  /** null in a row without a payload: of a job whose rows were deleted by hand, or the one that says `cut`. */
  seq: number | null,
  cut: boolean | null,
  passed: boolean | null,
  tenant: string | null,
  /** Of a payload, in microseconds since 1970; null: never. */
  expiry: number | null,
  /** How many payloads the row stands for that had expired when the round was claimed; 0 and null: none. */
  expired: number | null,
]

/** The columns that are read of each row. By number, since to name them all costs a round of many payloads a tenth. */
const [PLACE, PAYLOAD, HEADERS, SCORE, SEQ, CUT, PASSED, TENANT, EXPIRY, EXPIRED] = [
  1, 9, 10, 11, 12, 13, 14, 15, 16, 17,
] as const

/**
 * Stores how rounds ended and claims others, in one statement and one commit. Claims come last, since each function sees
 * the effects of those before it: so jobs that wait again can be taken at once. This can't deadlock, because no function
 * waits for a row. A death would wait for one in the morgue, and hold up the rest, so it is stored separately. Uses the
 * caller's transaction if one is given.
 */
export async function exchange(
  database: Database,
  processId: number,
  ended: readonly Ended[],
  wishes: readonly Wish[],
  tx?: Queryable,
): Promise<Exchanged> {
  const values: unknown[] = [processId]
  const placed = (columns: readonly unknown[]) => columns.map((column) => `$${values.push(column)}`)
  const parts: string[] = []
  for (const kind of KINDS) {
    const alike = ended.filter((one) => one.kind === kind)
    if (alike.length === 0) continue
    parts.push(settling(database.prefix, kind, placed(await columnsOfEnded(database, kind, alike))))
  }
  if (wishes.length > 0)
    parts.push(
      claiming(database.prefix, 'claim', ['$1', ...placed([...columnsOfWishes(wishes), spotsOf(wishes)])]),
    )
  const text = parts.join(' UNION ALL ')
  const rows = tx
    ? await database.query<AnswerRow>(text, values, tx, { lists: true })
    : await database.alone<AnswerRow>(text, values, { lists: true })
  return { leftovers: leftoversIn(rows), claims: claimsOf(rows, wishes) }
}

/** Puts an exception into one column, since the answer has a row for each claimed payload. */
function settling(prefix: string, kind: Ended['kind'], [queueIds, ...columns]: readonly string[]): string {
  return `SELECT pg_catalog.row_to_json(c)::text AS exception, NULL::integer AS place, NULL AS id, NULL::bigint AS fence,
      NULL::bigint AS perform_in, NULL::integer AS retry_count, NULL::smallint AS crashes, NULL::boolean AS rescued,
      NULL AS error, NULL AS payload, NULL AS headers, NULL AS score, NULL::bigint AS seq, NULL::boolean AS cut, NULL::boolean AS passed, NULL AS tenant,
      NULL::bigint AS expires_in, NULL::integer AS expired
    FROM ${prefix}.${FUNCTIONS[kind]}(${queueIds}, $1, ${columns.join(', ')}, false) c`
}

/** `columns`: all arguments of the function, as they are written in the statement. */
export function claiming(prefix: string, name: 'claim' | 'claim_leased', columns: readonly string[]): string {
  // By name: a later release may add columns, and rows are read by position. What further payloads of a job repeat is left
  // out, which saves a round of many a twentieth.
  return `SELECT NULL AS exception, CASE WHEN c.id IS NOT NULL OR c.fence IS NULL THEN c.place END AS place, c.id,
      CASE WHEN c.id IS NOT NULL THEN c.fence END AS fence, c.perform_in, c.retry_count, c.crashes, c.rescued, c.error, c.payload, c.headers, c.score, c.seq, c.cut, c.passed, c.tenant,
      c.expires_in, c.expired
    FROM ${prefix}.${name}(${columns.join(', ')}) c`
}

async function columnsOfEnded(
  database: Database,
  kind: Ended['kind'],
  ended: readonly Ended[],
): Promise<unknown[]> {
  const rounds = ended.flatMap((one) => one.rounds)
  const columns = [
    ended.flatMap(({ queueId, rounds }) => rounds.map(() => queueId)),
    rounds.map(({ id }) => id),
    rounds.map(({ fence }) => fence),
  ]
  if (kind === 'release') return columns
  if (kind === 'complete') return [...columns, ...cutsOf(rounds)]
  if (kind === 'answer') return [...columns, ...answersOf(rounds)]
  const failures = ended.flatMap((one) => one.failures)
  return [...columns, ...(await reasonsOf(database, failures))]
}

/** The arguments of a claim, after who claims. */
export function columnsOfWishes(wishes: readonly Wish[]): unknown[] {
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

/** The last argument of a claim. */
export function spotsOf(wishes: readonly Wish[]): string | null {
  return spotsJson(wishes.map(({ spots }) => spots))
}

function leftoversIn(rows: readonly AnswerRow[]): Leftover[] {
  return rows.filter((row) => row[0] !== null).map((row) => leftoverOf(JSON.parse(row[0]!)))
}

type LaneEnd = Omit<Claim, 'rounds'>

const NOTHING: LaneEnd = { head: null, passed: false, waits: undefined }

/** What a claim says of the rest of a lane. A job whose row was locked comes before those behind what was looked at. */
function endOf(head: number | null, passed: boolean, json: string | null): LaneEnd {
  if (json === null) return { head, passed, waits: undefined }
  const waits: Waits = JSON.parse(json)
  return waits.passed === null ? { head, passed, waits } : { head: waits.passed, passed: true, waits }
}

/** Relies on the rows of a job being adjacent. */
export function claimsOf(rows: readonly AnswerRow[], wishes: readonly Wish[], read?: ReadPayload): Claim[] {
  const claims = wishes.map(() => ({ rounds: [] as Round[], ...NOTHING }))
  for (let from = 0, to = 1; from < rows.length; from = to) {
    to = from + 1
    const [, place, id, , performIn] = rows[from]!
    if (place === null) continue
    const claim = claims[place - 1]!
    if (id === null) {
      Object.assign(claim, endOf(performIn, rows[from]![CUT] ?? false, rows[from]![PAYLOAD]))
      continue
    }
    // Further payloads of the job.
    while (to < rows.length && rows[to]![PLACE] === null) to += 1
    claim.rounds.push(roundOf(rows, from, to, read))
  }
  return claims
}

function roundOf(rows: readonly AnswerRow[], from: number, to: number, read: ReadPayload | undefined): Round {
  const [, , id, fence, performIn, retryCount, crashes, rescued, error] = rows[from]!
  const toLoad = rows[to - 1]![PASSED] === true
  const { payloads, scores, seqs, headers, expiries, expired, size, cut } = toLoad
    ? NO_PAYLOADS
    : payloadsOf(rows, from, to, read)
  return {
    id: id!,
    fence: fence!,
    performIn: performIn!,
    retryCount: retryCount ?? -1,
    crashes: crashes ?? 0,
    rescued: rescued ?? false,
    error,
    tenant: rows[from]![TENANT],
    toLoad,
    payloads,
    scores,
    seqs,
    headers,
    expiries,
    expired,
    size,
    cut,
  }
}

function payloadsOf(
  rows: readonly AnswerRow[],
  from: number,
  to: number,
  read: ReadPayload | undefined,
): PayloadSet {
  const first = rows[from]!
  if (to - from === 1 && first[SEQ] !== null && !first[EXPIRED])
    return onlyOne(first[PAYLOAD]!, first[HEADERS], Number(first[SCORE]), first[EXPIRY], read)
  const stored: StoredPayload[] = []
  let expired = 0
  for (let at = from; at < to; at += 1) {
    const row = rows[at]!
    const [payload, seq] = [row[PAYLOAD], row[SEQ]]
    expired += row[EXPIRED] ?? 0
    if (payload === null || seq === null || row[EXPIRED]) continue
    stored.push({ payload, headers: row[HEADERS], score: Number(row[SCORE]), seq, expiry: row[EXPIRY] })
  }
  return setOf(stored, rows[to - 1]![CUT] === true, expired, read)
}
