import type { Database, Queryable } from '../postgres/database.ts'
import type { Claim, ReadPayload, Round } from './claim.ts'
import { type AnswerRow, claiming, claimsOf, columnsOfWishes, spotsOf, type Wish } from './exchange.ts'
import { columnsOfResults, type KeptResult } from './results.ts'
import { type ExceptionRow, type Failure, type Leftover, leftoverOf, reasonsOf } from './settle.ts'

/** The process of all claims with a lease of their own. It has a row and never ends. */
export const LEASED = 0

/** A claim as its holder tells it, wherever it was made. */
export interface ClaimKey {
  readonly queueId: number
  readonly id: string
  readonly fence: number
}

/** A request for jobs of a lane. */
export interface LeasedWish extends Wish {
  /** Retries before the lowest payload dies, where the lease ends. */
  readonly maxRetryCount: number
}

/** Claims jobs under a lease of `lease` ms. One claim for each wish. `triesHeader`: see ConsumerOptions. */
export async function claimLeased(
  database: Database,
  lease: number,
  wishes: readonly LeasedWish[],
  triesHeader: string | undefined,
  read?: ReadPayload,
): Promise<Claim[]> {
  const retries = wishes.map(({ maxRetryCount }) => maxRetryCount)
  const values = [lease / 1000, retries, ...columnsOfWishes(wishes), triesHeader ?? null, spotsOf(wishes)]
  const columns = values.map((_, index) => `$${index + 1}`)
  const text = claiming(database.prefix, 'claim_leased', columns)
  const rows = await database.alone<AnswerRow>(text, values, { lists: true })
  return claimsOf(rows, wishes, read)
}

/** Notes where a round has left payloads behind. */
export async function noteCut(database: Database, queueId: number, { id, fence, cut }: Round): Promise<void> {
  await database.run('note_cut', [queueId, id, fence, cut!.score, cut!.seq])
}

/** How rounds of consumers end. `answer`: they are complete, and their results are kept. */
export type LeasedEnd = 'complete' | 'answer' | 'fail' | 'discard' | 'release'

/** One for each claim that has failed, and none for others. Only with `tx` are locked rows waited for. */
export async function settleLeased(
  database: Database,
  end: Exclude<LeasedEnd, 'answer'>,
  claims: readonly ClaimKey[],
  failures: readonly Failure[],
  tx?: Queryable,
): Promise<Leftover[]> {
  const [errors, retryIns] = failures.length > 0 ? await reasonsOf(database, failures, tx) : [null, null]
  const values = [end, ...columnsOfClaims(claims), errors, retryIns, tx !== undefined]
  return (await database.call<ExceptionRow>('settle_leased', values, tx)).map(leftoverOf)
}

/** Completes claims, and keeps a result for each. Only with `tx` are locked rows waited for. */
export async function answerLeased(
  database: Database,
  claims: readonly ClaimKey[],
  results: readonly (KeptResult | undefined)[],
  tx?: Queryable,
): Promise<Leftover[]> {
  const [queueIds, ...keys] = columnsOfClaims(claims)
  // Its leases know where a round has left payloads behind.
  const values = [queueIds, LEASED, ...keys, null, null, ...columnsOfResults(results), tx !== undefined]
  return (await database.call<ExceptionRow>('complete_with_results', values, tx)).map(leftoverOf)
}

/** Lets the leases end no earlier than `lease` ms from now. Returns the claims that are lost. */
export async function extendLeases(
  database: Database,
  claims: readonly ClaimKey[],
  lease: number,
): Promise<Leftover[]> {
  const values = [...columnsOfClaims(claims), lease / 1000]
  return (await database.call<ExceptionRow>('extend_leases', values)).map(leftoverOf)
}

function columnsOfClaims(claims: readonly ClaimKey[]): unknown[] {
  return [claims.map(({ queueId }) => queueId), claims.map(({ id }) => id), claims.map(({ fence }) => fence)]
}

/** The state of rounds that are still held, for a decision on what follows their failure. */
export async function heldRounds(
  database: Database,
  claims: readonly ClaimKey[],
  triesHeader: string | undefined,
): Promise<HeldRound[]> {
  return database.query<HeldRound>(
    `SELECT j.queue_id AS "queueId", j.id, j.fence, j.retry_count AS "retryCount", j.crashes, j.error, j.tenant,
       ${database.prefix}.micros(j.perform_in) AS "performIn",
       CASE WHEN $4::text IS NOT NULL THEN ${database.prefix}.tries_of(j.queue_id, j.id, $4) END AS tries
     FROM unnest($1::integer[], $2::text[], $3::bigint[]) AS c(queue_id, id, fence)
     JOIN ${database.prefix}.jobs j ON j.queue_id = c.queue_id AND j.id = c.id COLLATE "C" AND j.fence = c.fence AND j.claimed_by = ${LEASED}`,
    [...columnsOfClaims(claims), triesHeader ?? null],
  )
}

export interface HeldRound
  extends ClaimKey,
    Pick<Round, 'retryCount' | 'crashes' | 'error' | 'tenant' | 'performIn'> {
  /** How often the job may be handed over, if it says so. */
  readonly tries: number | null
}

/** What a call has done about leases that are over. */
export interface EndedLeases {
  readonly leases: number
  readonly rounds: number
  /** ms until the next lease is over; null if there is none. */
  readonly next: number | null
}

/** Ends leases that are over, `most` at once. */
export async function endLeases(database: Database, most: number): Promise<EndedLeases> {
  const [row] = await database.call<EndedLeases>('end_leases', [most])
  return row!
}
