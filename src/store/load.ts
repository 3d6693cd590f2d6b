import type { Database } from '../postgres/database.ts'
import { type ReadPayload, type Round, type RoundLimits, setOf } from './claim.ts'

/** Bytes of JSON text. A round takes at least one payload, whatever its limit. */
const LARGEST_PAYLOAD = 8 * 1024 * 1024
/** A slower link is as good as broken. */
const BYTES_PER_MS = 1_000

/** A row of load_payloads. One that says `cut`, `lost`, or only how many have expired, has no payload. */
interface LoadedRow {
  /** JSON. */
  readonly payload: string | null
  /** JSON. */
  readonly headers: string | null
  /** Text with all digits, whatever the session's settings. */
  readonly score: string | null
  readonly seq: number | null
  /** Microseconds since 1970; null: never. */
  readonly expires_in: number | null
  /** How many payloads the row stands for that had expired when the round was claimed. */
  readonly expired: number | null
  readonly cut: boolean
  readonly lost: boolean
}

/**
 * Loads the payloads that did not come with the claim. Undefined if the claim was lost. The call may take longer than
 * others, by the time that the bytes need.
 */
export async function loadPayloads(
  database: Database,
  processId: number,
  queueId: number,
  round: Round,
  { maxPayloads, maxBytes }: RoundLimits,
  read?: ReadPayload,
): Promise<Round | undefined> {
  const values = [queueId, processId, round.id, round.fence, maxPayloads ?? null, maxBytes]
  const longer = Math.max(maxBytes, LARGEST_PAYLOAD) / BYTES_PER_MS
  const rows = await database.call<LoadedRow>('load_payloads', values, undefined, { longer })
  if (rows.at(-1)?.lost) return undefined
  const stored = rows.flatMap(({ payload, headers, score, seq, expires_in, expired }) =>
    payload === null || seq === null || expired
      ? []
      : { payload, headers, score: Number(score), seq, expiry: expires_in },
  )
  const expired = rows.reduce((sum, row) => sum + (row.expired ?? 0), 0)
  return { ...round, toLoad: false, ...setOf(stored, rows.at(-1)?.cut === true, expired, read) }
}
