import type { Database } from '../postgres/database.ts'
import { type PayloadRow, type Round, type RoundLimits, setOf } from './claim.ts'

/** Of a payload's JSON text: a round takes one at least, whatever its limit. */
const LARGEST_PAYLOAD = 8 * 1024 * 1024
/** A link that is slower than that is as good as broken. */
const BYTES_PER_MS = 1_000

/** As load_payloads returns it. */
interface LoadedRow extends PayloadRow {
  readonly lost: boolean
}

/**
 * The round with its payloads, which did not come with the claim; undefined where the claim was lost. The call may take
 * longer than others, by as much as the bytes need.
 */
export async function loadPayloads(
  database: Database,
  processId: number,
  queueId: number,
  round: Round,
  { maxPayloads, maxBytes }: RoundLimits,
): Promise<Round | undefined> {
  const values = [queueId, processId, round.id, round.fence, maxPayloads ?? null, maxBytes]
  const longer = Math.max(maxBytes, LARGEST_PAYLOAD) / BYTES_PER_MS
  const rows = await database.call<LoadedRow>('load_payloads', values, undefined, { longer })
  if (rows.at(-1)?.lost) return undefined
  return { ...round, toLoad: false, ...setOf(rows) }
}
