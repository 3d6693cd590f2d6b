import type { PushedJob } from '../store/push.ts'
import type { CheckedCall } from './call.ts'
import { MAX_HEADERS_BYTES } from './validation.ts'

/**
 * The call with these headers added to those of its payloads that have none of the names. What instruments add must not make
 * a push fail, so headers that would become too large stay as they are.
 */
export function stamped(
  call: CheckedCall,
  headers: Readonly<Record<string, string>> | undefined,
): CheckedCall {
  if (!headers) return call
  const alone = fitting(JSON.stringify(headers))
  return { ...call, jobs: call.jobs.map((job) => ({ ...job, headers: headersOf(job, headers, alone) })) }
}

function headersOf(
  { headers: own }: PushedJob,
  added: Readonly<Record<string, string>>,
  alone: string | null,
): string | null {
  if (own === null) return alone
  const all = JSON.parse(own)
  if (Object.keys(added).some((name) => Object.hasOwn(all, name))) return own
  return fitting(JSON.stringify({ ...all, ...added })) ?? own
}

function fitting(json: string): string | null {
  return Buffer.byteLength(json) <= MAX_HEADERS_BYTES ? json : null
}
