import type { JobInfo, JobInWork } from '../../job.ts'
import type { Round } from '../../store/claim.ts'

export function infoOf(round: Round): JobInfo {
  return {
    retryCount: round.retryCount,
    performIn: new Date(round.performIn / 1000),
    scores: round.scores,
    headers: round.headers ?? round.payloads.map(() => null),
    error: round.error,
    tenant: round.tenant,
    crashes: round.crashes,
    fence: round.fence,
  }
}

export function jobOf(round: Round): JobInWork {
  return { id: round.id, payloads: round.payloads, ...infoOf(round) }
}
