import type { LaneKey } from '../../store/claim.ts'
import type { QueueRow } from '../../store/queue.ts'
import type { ServerClock } from './server-clock.ts'

/**
 * Says from when on slots may take from a lane. The timetable asks it before any scheduler picks, and again when it is told
 * that the answer has changed.
 */
export interface Admission {
  /** In µs since 1970, by the server's clock. 0 means now; Infinity, not until the timetable is told to ask again. */
  notBefore(lane: LaneKey): number
}

export const OPEN: Admission = { notBefore: () => 0 }

/** Each of them has to admit a lane. */
export function allOf(...admissions: readonly Admission[]): Admission {
  return { notBefore: (lane) => Math.max(...admissions.map((one) => one.notBefore(lane))) }
}

/** Keeps slots from asking for jobs of paused queues. A claim checks this too, since a worker may learn of a pause late. */
export class Pauses implements Admission {
  #queueIds: ReadonlySet<number> = new Set()

  /** Takes the result of a comparison. Returns whether other queues are paused than before. */
  see(queues: readonly QueueRow[]): boolean {
    const before = this.#queueIds
    this.#queueIds = new Set(queues.filter(({ paused }) => paused).map(({ queueId }) => queueId))
    return before.size !== this.#queueIds.size || [...before].some((queueId) => !this.#queueIds.has(queueId))
  }

  notBefore({ queueId }: LaneKey): number {
    return this.#queueIds.has(queueId) ? Number.POSITIVE_INFINITY : 0
  }
}

/** Most ms that a queue's jobs wait when none can begin. */
const LONGEST_REFUSAL = 1_000

/**
 * Keeps slots from the jobs of queues whose batches can't begin, since no connection can be had for their transactions. One
 * connection may just have broken, so the first refusal has no effect. If a batch that was taken after it is refused too,
 * slots wait before they try again: to take jobs and release them without a pause would burden a server that has none to
 * spare. A queue of which some batches begin does not wait.
 */
export class Refusals implements Admission {
  readonly #clock: ServerClock
  readonly #pause: number
  /** By queue: when the last series of refusals began, and until when slots wait; in ms of the monotonic clock. */
  readonly #refused = new Map<number, { readonly at: number; readonly until: number }>()

  constructor(clock: ServerClock, poll: number) {
    this.#clock = clock
    this.#pause = Math.min(poll, LONGEST_REFUSAL)
  }

  /** A batch of the queue could not begin that was taken at `takenAt`. Returns whether slots wait longer than before. */
  refuse(queueId: number, takenAt: number): boolean {
    const at = performance.now()
    const last = this.#refused.get(queueId)
    // Slots that tried at the same time say nothing new.
    if (last && takenAt <= last.at) return false
    this.#refused.set(queueId, { at, until: last ? at + this.#pause : 0 })
    return last !== undefined
  }

  /** A batch of the queue has begun. Returns whether slots were still waiting. */
  admit(queueId: number): boolean {
    const last = this.#refused.get(queueId)
    return this.#refused.delete(queueId) && last!.until > performance.now()
  }

  notBefore({ queueId }: LaneKey): number {
    const left = (this.#refused.get(queueId)?.until ?? 0) - performance.now()
    return left > 0 ? this.#clock.now() + left * 1000 : 0
  }
}
