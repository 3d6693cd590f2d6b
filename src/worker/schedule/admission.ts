import type { LaneKey } from '../../store/claim.ts'
import type { QueueRow } from '../../store/queue.ts'

/** Says from when on slots may take from a lane. The timetable asks it before any scheduler picks. */
export interface Admission {
  /** In µs since 1970, by the server's clock. 0 means now; Infinity, not until the timetable is told to ask again. */
  notBefore(lane: LaneKey): number
}

export const OPEN: Admission = { notBefore: () => 0 }

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
