import type { DeadText, JobTexts } from '../../admin/insight.ts'
import type { QueueStats } from '../../index.ts'

/** Payloads go out as they are stored, so that their numbers have all digits. */
export function jobText({ payloads, ...job }: JobTexts): string {
  const head = JSON.stringify({
    id: job.id,
    state: job.state,
    shard: job.shard,
    lane: job.lane,
    tenant: job.tenant,
    perform_in: job.performIn,
    retry_count: job.retryCount,
    crashes: job.crashes,
    error: job.error,
    claimed_at: job.claimedAt,
    process: job.processId,
    lease_ends_at: job.leaseEndsAt,
    fence: job.fence === null ? null : String(job.fence),
    payload_count: payloads.count,
  })
  const all = payloads.first.map(({ text, cut, score, headers, expiresIn }) =>
    withPayload({ score, headers: headers ?? null, expires_in: timeOf(expiresIn) }, text, cut),
  )
  return `${head.slice(0, -1)},"payloads":[${all.join(',')}]}`
}

/** Of payloads that aren't shown, any may be alive. */
export function hasExpired({ payloads: { count, first } }: JobTexts, now: Date): boolean {
  return (
    count === first.length && first.every(({ expiresIn }) => expiresIn !== null && expiresIn <= now.getTime())
  )
}

export function deadText({ payload: { text, cut }, ...dead }: DeadText): string {
  const { id, key, tenant, score, headers, error, diedAt } = dead
  return withPayload({ id, key, tenant, score, headers, error, died_at: diedAt }, text, cut)
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}

/** A beginning of JSON is no JSON. */
function withPayload(rest: object, text: string, cut: boolean): string {
  return `${JSON.stringify({ ...rest, cut }).slice(0, -1)},"payload":${cut ? 'null' : text}}`
}

export function statsOf({ pausedAt, lag, ...stats }: QueueStats): object {
  return { ...stats, paused_at: pausedAt, lag: lag / 1_000 }
}
