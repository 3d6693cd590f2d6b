import pg from 'pg'
import { type Database, typesWith } from '../postgres/database.ts'

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
  size: number
  /** The last payload taken, where maxPayloads left some behind. */
  cut: { score: number; seq: number } | undefined
}

export interface Claim {
  readonly rounds: Round[]
  /** When the next job of the lane is due, in microseconds since 1970; null: none known. */
  readonly head: number | null
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

export async function claim(
  database: Database,
  processId: number,
  { queueId, shard, lane }: LaneKey,
  cursor: Cursor,
  batchSize: number,
  maxPayloads: number | undefined,
): Promise<Claim> {
  const { after, afterId } = cursor
  const values = [queueId, shard, lane, processId, batchSize, maxPayloads ?? null, after, afterId]
  const rows = await database.call<ClaimRow>('claim', values, undefined, JSON_AS_TEXT)
  return toClaim(rows)
}

export function toClaim(rows: ClaimRow[]): Claim {
  const next = rows.at(-1)?.id === null ? rows.pop() : undefined
  return { rounds: gather(rows), head: next?.perform_in ?? null }
}

/** The rows of a job stand together, in the order of its payloads. */
function gather(rows: readonly ClaimRow[]): Round[] {
  const rounds: Round[] = []
  for (const row of rows) {
    let round = rounds.at(-1)
    if (round?.id !== row.id) {
      round = roundOf(row)
      rounds.push(round)
    }
    // Nothing of ours leaves a job without payloads; deleting rows by hand does.
    if (row.seq === null) continue
    round.payloads.push(JSON.parse(row.payload))
    round.size += row.payload.length
    round.scores.push(row.score)
    if (row.cut) round.cut = { score: row.score, seq: row.seq }
  }
  return rounds
}

function roundOf(row: ClaimRow): Round {
  return {
    id: row.id!,
    fence: row.fence,
    performIn: row.perform_in!,
    retryCount: row.retry_count,
    crashes: row.crashes,
    rescued: row.rescued,
    error: row.error,
    payloads: [],
    scores: [],
    size: 0,
    cut: undefined,
  }
}
