import pg from 'pg'
import { typesWith } from '../postgres/database.ts'

/** The jobs of one class of service in one shard: what a claim takes from. */
export interface LaneKey {
  readonly queueId: number
  readonly shard: number
  readonly lane: number
}

/** The place in a lane up to which everything has been taken. Microseconds since 1970; null: the beginning. */
export interface Cursor {
  readonly after: number | null
  readonly afterId: string
}

/** A claimed job with the payloads of this round. Its id and fence prove the claim. */
export interface Round {
  readonly id: string
  readonly fence: number
  /** Microseconds since 1970. */
  readonly performIn: number
  readonly retryCount: number
  readonly crashes: number
  /** Its last process died with it. */
  readonly rescued: boolean
  readonly error: string | null
  readonly payloads: unknown[]
  readonly scores: number[]
  /** Characters of its payloads. */
  readonly size: number
  /** The last payload taken, where maxPayloads left some behind. */
  readonly cut: { score: number; seq: number } | undefined
}

export interface Claim {
  readonly rounds: Round[]
  /** When the next job of the lane is due, in microseconds since 1970; null: none known. */
  readonly head: number | null
  /** That job lies before the last one taken: its row was locked, so that it was passed over. */
  readonly passed: boolean
}

/** A payload of a claimed job; without an id, the next job to come. */
export interface ClaimRow {
  id: string | null
  fence: number
  perform_in: number | null
  retry_count: number
  crashes: number
  rescued: boolean
  error: string | null
  /** JSON. */
  payload: string
  score: number
  seq: number | null
  cut: boolean | null
}

/** How large a payload is, its text alone tells. */
export const JSON_AS_TEXT = typesWith({ [pg.types.builtins.JSONB]: String })

export function toClaim(rows: ClaimRow[]): Claim {
  const next = rows.at(-1)?.id === null ? rows.pop() : undefined
  return { rounds: gather(rows), head: next?.perform_in ?? null, passed: next?.cut ?? false }
}

/** The rows of a job stand together. */
function gather(rows: readonly ClaimRow[]): Round[] {
  const rounds: Round[] = []
  for (let from = 0, to = 1; from < rows.length; from = to) {
    to = from + 1
    while (to < rows.length && rows[to]!.id === rows[from]!.id) to += 1
    rounds.push(roundOf(rows.slice(from, to)))
  }
  return rounds
}

function roundOf(rows: readonly ClaimRow[]): Round {
  const [job] = rows as [ClaimRow]
  // Nothing of ours leaves a job without payloads; deleting rows by hand does.
  const payloads = job.seq === null ? [] : rows.length === 1 ? rows : inOrder(rows)
  const last = payloads.at(-1)
  return {
    id: job.id!,
    fence: job.fence,
    performIn: job.perform_in!,
    retryCount: job.retry_count,
    crashes: job.crashes,
    rescued: job.rescued,
    error: job.error,
    payloads: payloads.map(({ payload }) => JSON.parse(payload)),
    scores: payloads.map(({ score }) => score),
    size: payloads.reduce((sum, { payload }) => sum + payload.length, 0),
    cut: last?.cut ? { score: last.score, seq: last.seq! } : undefined,
  }
}

/**
 * By score, those of one score as they came; of equal payloads that several rounds have left, the lowest. Equal ones
 * have one text: jsonb has sorted their keys.
 */
function inOrder(rows: readonly ClaimRow[]): ClaimRow[] {
  const sorted = rows.toSorted((a, b) => a.score - b.score || a.seq! - b.seq!)
  const seen = new Set<string>()
  return sorted.filter(({ payload }) => !seen.has(payload) && seen.add(payload))
}
