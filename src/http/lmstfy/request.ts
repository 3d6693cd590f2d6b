import { type Call, json } from '../call.ts'
import type { Jobs } from './jobs.ts'
import type { Metrics } from './metrics.ts'
import { fullNameOf } from './names.ts'
import type { Defaults } from './parameters.ts'

export const INVALID_TOKEN = json(401, { error: 'invalid token' })

/** A request to which names, pool and token are known. */
export interface Request {
  readonly call: Call
  /** Reads the body, as far as it fits beside those of others. Undefined: it has more than `most` bytes. */
  body(most: number): Promise<Buffer | undefined>
  readonly pool: string
  readonly namespace: string
  /** Of a consume, several with commas. */
  readonly queue: string
  /** Of the path, where it has one. */
  readonly id: string
  readonly jobs: Jobs
  readonly defaults: Defaults
  readonly metrics: Metrics
  /** Whether its token exists by now: it may have been deleted while the request waited. */
  isAllowed(): Promise<boolean>
}

export function queueOf({ namespace, queue }: Request): string {
  return fullNameOf(namespace, queue)
}
