/** Small JSON beside a payload, such as a trace context. Never a part of its equality. */
export type PayloadHeaders = Readonly<Record<string, unknown>>

/**
 * A job to push. Jobs of a queue with the same `id` merge, and never run side by side. Its `payload` is any JSON value up to
 * 8 MiB, `""` by default. It may be missing where the queue's type allows for `""`.
 */
export type NewJob<Payload = unknown> = JobFields &
  ('' extends Payload ? { readonly payload?: Payload } : { readonly payload: Payload })

interface JobFields {
  /** Identifies the job: non-empty text up to 1,024 bytes; a finite number or a bigint becomes text. */
  readonly id: string | number | bigint
  /** Orders the payloads of an id, lowest first. A Date counts as ms since 1970. Default: now. */
  readonly score?: number | Date
  /** The earliest time to start. A number is ms since 1970. Default: now. */
  readonly performIn?: Date | number
  /**
   * When the payload expires, not before `performIn`. A number is ms since 1970. What is not handed over by then never is, be it the
   * first time or after a failure: it goes away unseen, and is counted. Of equal payloads that merge, the latest time holds.
   * Default: never.
   */
  readonly expiresIn?: Date | number | null
  /**
   * Class of service inside the queue, 0 to 32767; the scheduler decides what it means. Default: 0, or what the rules of the
   * queue say of its tenant.
   */
  readonly lane?: number
  /**
   * Goes with the payload: a JSON object up to 16 KiB. If equal payloads merge, those of the first that was pushed stay.
   * Default none.
   */
  readonly headers?: PayloadHeaders | null
  /**
   * For whom the job is: text up to 1,024 bytes without control characters. Tenants share a queue (docs/tenants.md). Null or empty:
   * nobody in particular. Default: what the queue's `tenant` says. A job that waits, or is in work, keeps the one it has.
   */
  readonly tenant?: string | null
}

export const MAX_LANE = 32_767

/** Lanes that tenants have in queues without rules are below 0, from -1 to this. */
export const LAST_TENANT_LANE = -32

/** Details of a job in a batch, for its handler. */
export interface JobInfo {
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  /** When this round was due. */
  readonly performIn: Date
  /** The scores of the payloads, in the order of the payloads. */
  readonly scores: readonly number[]
  /** The headers of the payloads, in the order of the payloads; null for those without. */
  readonly headers: readonly (PayloadHeaders | null)[]
  /** The error of the last failure since the last success, even if another payload died of it. */
  readonly error: string | null
  /** For whom the job is; null: nobody in particular. */
  readonly tenant: string | null
  /** How often in a row a process died with the job in work, or the transaction lost its connection. */
  readonly crashes: number
  /**
   * The number of this claim; it only grows for an id. An outside system that remembers the highest fence and refuses
   * lower ones is safe from a handler that goes on after its lease has ended.
   */
  readonly fence: number
}

/** A job in work with its payloads, for options that depend on it. */
export interface JobInWork<Payload = unknown> extends JobInfo {
  readonly id: string
  /** In score order. Empty for a job that crashed too often, if they were not loaded. */
  readonly payloads: readonly Payload[]
}
