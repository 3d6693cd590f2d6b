/** A job to push. Jobs of one queue with the same `id` merge, and are never worked on side by side. */
export interface NewJob<Payload = unknown> {
  /** What the job is about: non-empty text up to 1,024 bytes; a finite number becomes text. */
  readonly id: string | number
  /** Any JSON value up to 8 MiB. Default `""`. */
  readonly payload?: Payload
  /** The payload's place among those of its id, lowest first; a Date counts in ms since 1970. Default: now. */
  readonly score?: number | Date
  /** Not to be started earlier. A number is ms since 1970. Default: now. */
  readonly performIn?: Date | number
  /** Class of service inside the queue, 0 to 32767: what it means is the scheduler’s word. Default 0. */
  readonly lane?: number
}

/** The highest lane there is. */
export const MAX_LANE = 32_767

/** What a handler may want to know of a job in its batch. */
export interface JobInfo {
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  readonly performIn: Date
  /** The scores of the payloads, in their order. */
  readonly scores: readonly number[]
  /** Of the last failure since the last success: also where that was the death of another payload. */
  readonly error: string | null
  /** How often in a row a process died with the job in work, or its transaction lost the connection. */
  readonly crashes: number
  /**
   * The number of this claim: those of one id only grow. A system outside the database that keeps the highest it
   * has seen, and refuses lower ones, is safe from a handler that goes on after its lease has ended.
   */
  readonly fence: number
}
