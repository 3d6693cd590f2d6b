import type { TokenScope } from '../../../index.ts'
import type { Asked } from '../../../serving/asked.ts'
import type { Arrival } from '../../../serving/place.ts'
import { Problem } from '../../../serving/problem.ts'

/** What a request wants. */
export interface ApiRequest {
  readonly scope: TokenScope
  /** Undefined: it names none, or its body has not been read yet. */
  readonly queue: string | undefined
}

/** `true`, or who it is, for the audit and idempotency keys, means yes; anything else means no. */
export type Admission = boolean | { readonly actor: string } | null | undefined

/** What a request may do that was let in. */
export interface Grant {
  /** Who it is, if that is known. */
  readonly actor: string | undefined
  /** Whose idempotency keys it uses. */
  readonly holder: string
  /** The queues that it may use; null: no list says so. */
  readonly queues: readonly string[] | null
  /** Beyond that list. */
  may(queue: string): Promise<boolean>
  /**
   * Asked before something is given to a request that has waited.
   * @throws Problem if what let it in was taken back
   */
  requireStill(): Promise<void>
}

/** Decides who may do what. */
export interface Access {
  /** @throws Problem */
  admit(asked: Asked, arrival: Arrival, wanted: ApiRequest): Promise<Grant>
}

const yes = async () => true
export const forGood = async () => {}

export const OPEN: Access = {
  admit: async () => ({ actor: undefined, holder: 'open', queues: null, may: yes, requireStill: forGood }),
}

/** @throws Problem for a queue that the request may not use */
export async function requireQueues(
  grant: Grant,
  wanted: readonly string[],
  scope: TokenScope,
): Promise<void> {
  for (const queue of new Set(wanted)) if (!(await mayUse(grant, queue))) throw forbidden(scope, queue)
}

export async function mayUse({ queues, may }: Grant, queue: string): Promise<boolean> {
  return (queues === null || queues.includes(queue)) && may(queue)
}

export function forbidden(scope: TokenScope, queue?: string): Problem {
  const what = queue === undefined ? scope : `${scope} in the queue ${JSON.stringify(queue)}`
  return new Problem(403, 'LOCKSTEP_FORBIDDEN', `you may not ${what}`)
}
