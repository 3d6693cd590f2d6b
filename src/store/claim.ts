import type { PayloadHeaders } from '../job.ts'
import type { Queue } from '../queue.ts'

/** The limits on what one round takes of an id. */
export type RoundLimits = Pick<Queue, 'maxPayloads' | 'maxBytes'>

/** The jobs of one class of service in one shard. A claim takes jobs from one lane. */
export interface LaneKey {
  readonly queueId: number
  readonly shard: number
  readonly lane: number
}

/** The place in a lane up to which everything is taken. `after`: microseconds since 1970; null: the beginning. */
export interface Cursor {
  readonly after: number | null
  readonly afterId: string
}

/** A claimed job with the payloads of this round. The id and fence prove the claim. */
export interface Round {
  readonly id: string
  readonly fence: number
  /** Microseconds since 1970. */
  readonly performIn: number
  readonly retryCount: number
  readonly crashes: number
  /** The last process died with this job in work. */
  readonly rescued: boolean
  readonly error: string | null
  /** The payloads did not come with the claim, and must be loaded before the round begins. */
  readonly toLoad: boolean
  readonly payloads: unknown[]
  readonly scores: number[]
  /** Of each payload; undefined if none has any, as is usual. */
  readonly headers: (PayloadHeaders | null)[] | undefined
  /** Characters of the payloads and headers. */
  readonly size: number
  /** The last payload taken, if maxPayloads or maxBytes left some behind. */
  readonly cut: { score: number; seq: number } | undefined
}

export interface Claim {
  readonly rounds: Round[]
  /** When the next job of the lane is due, in microseconds since 1970; null if none is known. */
  readonly head: number | null
  /** That job lies before the last one taken: the claim passed over it because its row was locked. */
  readonly passed: boolean
}

/** A payload of a round. */
export interface PayloadRow {
  /** JSON. */
  readonly payload: string | null
  /** JSON. */
  readonly headers: string | null
  /** Text with all digits, whatever the session's settings. */
  readonly score: string | null
  /** null in a row without a payload. */
  readonly seq: number | null
  readonly cut: boolean | null
}

/**
 * A payload of a claimed job. The first row of a job also describes the job; null means the value of one that never ran.
 * A row without a fence is the next job to come.
 */
export interface ClaimRow extends PayloadRow {
  readonly id: string | null
  readonly fence: number | null
  readonly perform_in: number | null
  readonly retry_count: number | null
  readonly crashes: number | null
  readonly rescued: boolean | null
  readonly error: string | null
  readonly passed: boolean | null
}

export function toClaim(rows: ClaimRow[]): Claim {
  const next = rows.at(-1)?.fence === null ? rows.pop() : undefined
  return { rounds: gather(rows), head: next?.perform_in ?? null, passed: next?.cut ?? false }
}

/** Relies on the rows of a job being adjacent. */
function gather(rows: readonly ClaimRow[]): Round[] {
  const rounds: Round[] = []
  for (let from = 0, to = 1; from < rows.length; from = to) {
    to = from + 1
    while (to < rows.length && rows[to]!.id === null) to += 1
    rounds.push(to - from === 1 ? roundOfOne(rows[from]!) : roundOf(rows.slice(from, to)))
  }
  return rounds
}

/** The usual case: a job with one payload. */
function roundOfOne(row: ClaimRow): Round {
  const toLoad = row.passed === true
  return toRound(row, toLoad, toLoad || row.seq === null ? EMPTY : onlyOne(row))
}

function roundOf(rows: readonly ClaimRow[]): Round {
  const toLoad = rows.at(-1)!.passed === true
  return toRound(rows[0]!, toLoad, toLoad ? EMPTY : setOf(rows))
}

function toRound(
  job: ClaimRow,
  toLoad: boolean,
  { payloads, scores, headers, size, cut }: PayloadSet,
): Round {
  return {
    id: job.id!,
    fence: job.fence!,
    performIn: job.perform_in!,
    retryCount: job.retry_count ?? -1,
    crashes: job.crashes ?? 0,
    rescued: job.rescued ?? false,
    error: job.error,
    toLoad,
    payloads,
    scores,
    headers,
    size,
    cut,
  }
}

type PayloadSet = Pick<Round, 'payloads' | 'scores' | 'headers' | 'size' | 'cut'>

const EMPTY: PayloadSet = { payloads: [], scores: [], headers: undefined, size: 0, cut: undefined }

/** A row with a payload, with the score as a number. */
interface Entry {
  readonly payload: string
  readonly headers: string | null
  score: number
  readonly seq: number
}

/** The payloads that a round takes of its job, in order. */
export function setOf(rows: readonly PayloadRow[]): PayloadSet {
  if (rows.length === 1 && rows[0]!.seq !== null) return onlyOne(rows[0]!)
  const [payloads, scores]: [unknown[], number[]] = [[], []]
  const seen = new Set<string>()
  let size = 0
  let last = -1
  for (const { payload, headers, score, seq } of inOrder(rows)) {
    // Several rounds may leave equal payloads: keep the lowest. Equal ones have the same text, since jsonb sorts their keys.
    if (seen.has(payload)) continue
    seen.add(payload)
    payloads.push(JSON.parse(payload))
    scores.push(score)
    size += payload.length + (headers?.length ?? 0)
    last = seq
  }
  const cut = last >= 0 && rows.at(-1)!.cut ? { score: scores.at(-1)!, seq: last } : undefined
  return { payloads, scores, headers: headersOf(rows, seen), size, cut }
}

/** One for each payload. Of equal ones, those of the first that was pushed stay, whichever has the lowest score. */
function headersOf(rows: readonly PayloadRow[], payloads: Iterable<string>): Round['headers'] {
  if (rows.every(({ headers }) => headers === null)) return undefined
  const first = new Map<string | null, PayloadRow>()
  for (const row of rows) {
    const other = first.get(row.payload)
    if (row.seq !== null && !(other && other.seq! < row.seq)) first.set(row.payload, row)
  }
  return Array.from(payloads, (payload) => JSON.parse(first.get(payload)!.headers ?? 'null'))
}

function onlyOne({ payload, headers, score }: PayloadRow): PayloadSet {
  return {
    payloads: [JSON.parse(payload!)],
    scores: [Number(score)],
    headers: headers === null ? undefined : [JSON.parse(headers)],
    size: payload!.length + (headers?.length ?? 0),
    cut: undefined,
  }
}

/** Sorts by score, then in push order. */
function inOrder(rows: readonly PayloadRow[]): Entry[] {
  // Only deleting rows by hand leaves a job without payloads.
  const entries = rows.filter(({ seq }) => seq !== null) as unknown as Entry[]
  // In place: one more object per payload would cost a tenth of the time of a round with many.
  for (const entry of entries) entry.score = Number(entry.score)
  return entries.sort((a, b) => a.score - b.score || a.seq - b.seq)
}
