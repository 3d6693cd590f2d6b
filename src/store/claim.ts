import type { PayloadHeaders } from '../job.ts'
import type { Queue } from '../queue.ts'
import type { Waits } from './limits.ts'
import type { KeptResult } from './results.ts'

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
  readonly tenant: string | null
  /** The payloads did not come with the claim, and must be loaded before the round begins. */
  readonly toLoad: boolean
  readonly payloads: unknown[]
  readonly scores: number[]
  /** Where they stand among others of their score; undefined of a payload that is alone. */
  readonly seqs: number[] | undefined
  /** Of each payload; undefined if none has any, as is usual. */
  readonly headers: (PayloadHeaders | null)[] | undefined
  /** When each payload expires, in microseconds since 1970; null: never. Undefined if none expires, as is usual. */
  readonly expiries: (number | null)[] | undefined
  /** Payloads of the job that had expired, and are left out. */
  readonly expired: number
  /** Characters of the payloads and headers. */
  readonly size: number
  /** The last payload taken, if maxPayloads or maxBytes left some behind. */
  readonly cut: { score: number; seq: number } | undefined
  /** What its handler has returned, to be kept with its completion. */
  readonly kept?: KeptResult | undefined
}

export interface Claim {
  readonly rounds: Round[]
  /** When the next job of the lane is due, in microseconds since 1970; null if none is known. */
  readonly head: number | null
  /** That job lies before the last one taken: the claim passed over it because its row was locked. */
  readonly passed: boolean
  /** Set if limits kept something of the lane waiting. `head` is the next job behind what was looked at. */
  readonly waits?: Waits | undefined
}

/** A payload of a round, as it is stored. */
export interface StoredPayload {
  /** JSON. */
  readonly payload: string
  /** JSON. */
  readonly headers: string | null
  readonly score: number
  readonly seq: number
  /** Microseconds since 1970; null: never. */
  readonly expiry: number | null
}

/** The payloads of a round, parsed and in order. */
export type PayloadSet = Pick<
  Round,
  'payloads' | 'scores' | 'seqs' | 'headers' | 'expiries' | 'expired' | 'size' | 'cut'
>

export const NO_PAYLOADS: PayloadSet = {
  payloads: [],
  scores: [],
  seqs: undefined,
  headers: undefined,
  expiries: undefined,
  expired: 0,
  size: 0,
  cut: undefined,
}

/** What a payload's JSON text becomes: a value, or what keeps all digits of its numbers. */
export type ReadPayload = (json: string) => unknown

/**
 * The payloads that a round takes of its job. Sorts `stored`. `isCut`: maxPayloads or maxBytes left some behind. `expired`: how
 * many had expired when the round was claimed, and are not among `stored`.
 */
export function setOf(
  stored: StoredPayload[],
  isCut: boolean,
  expired = 0,
  read: ReadPayload = JSON.parse,
): PayloadSet {
  const [payloads, scores, seqs]: [unknown[], number[], number[]] = [[], [], []]
  const seen = new Set<string>()
  let size = 0
  for (const { payload, headers, score, seq } of inOrder(stored)) {
    // Several rounds may leave equal payloads: keep the lowest. Equal ones have the same text, since jsonb sorts their keys.
    if (seen.has(payload)) continue
    seen.add(payload)
    payloads.push(read(payload))
    scores.push(score)
    seqs.push(seq)
    size += payload.length + (headers?.length ?? 0)
  }
  const last = payloads.length - 1
  const cut = isCut && last >= 0 ? { score: scores[last]!, seq: seqs[last]! } : undefined
  const [headers, expiries] = [headersOf(stored, seen), expiriesOf(stored, seen)]
  const all = { payloads, scores, headers, expiries, expired, size, cut }
  return { ...all, seqs: last > 0 ? seqs : undefined }
}

/** The same round with only the first payloads, but not all; the others are left to the next one, also what has expired. */
export function cutAfter(round: Round, count: number): Round {
  return {
    ...round,
    payloads: round.payloads.slice(0, count),
    scores: round.scores.slice(0, count),
    seqs: round.seqs?.slice(0, count),
    headers: round.headers?.slice(0, count),
    expiries: round.expiries?.slice(0, count),
    expired: 0,
    cut: { score: round.scores[count - 1]!, seq: round.seqs![count - 1]! },
  }
}

/** One for each payload. Of equal ones, those of the first that was pushed stay, whichever has the lowest score. */
function headersOf(stored: readonly StoredPayload[], payloads: Iterable<string>): Round['headers'] {
  if (stored.every(({ headers }) => headers === null)) return undefined
  const first = new Map<string, StoredPayload>()
  for (const one of stored) {
    const other = first.get(one.payload)
    if (!(other && other.seq < one.seq)) first.set(one.payload, one)
  }
  return Array.from(payloads, (payload) => JSON.parse(first.get(payload)!.headers ?? 'null'))
}

/** One for each payload. Of equal ones, the latest holds (R2). */
function expiriesOf(stored: readonly StoredPayload[], payloads: Iterable<string>): Round['expiries'] {
  if (stored.every(({ expiry }) => expiry === null)) return undefined
  const latest = new Map<string, number>()
  for (const { payload, expiry } of stored)
    latest.set(
      payload,
      Math.max(latest.get(payload) ?? Number.NEGATIVE_INFINITY, expiry ?? Number.POSITIVE_INFINITY),
    )
  return Array.from(payloads, (payload) => {
    const expiry = latest.get(payload)!
    return Number.isFinite(expiry) ? expiry : null
  })
}

/** As `setOf`, for the usual case of one payload. */
export function onlyOne(
  payload: string,
  headers: string | null,
  score: number,
  expiry: number | null,
  read: ReadPayload = JSON.parse,
): PayloadSet {
  return {
    payloads: [read(payload)],
    scores: [score],
    seqs: undefined,
    headers: headers === null ? undefined : [JSON.parse(headers)],
    expiries: expiry === null ? undefined : [expiry],
    expired: 0,
    size: payload.length + (headers?.length ?? 0),
    cut: undefined,
  }
}

/** Sorts by score, then in push order; in place, since a copy of many would cost time. */
function inOrder(stored: StoredPayload[]): StoredPayload[] {
  return stored.sort((a, b) => a.score - b.score || a.seq - b.seq)
}
