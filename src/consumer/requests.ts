import type { Timetable } from '../worker/schedule/timetable.ts'
import type { ConsumedQueue } from './consumed-queue.ts'
import type { Request } from './request.ts'

/** The calls of `claim` that wait for jobs, the first in front. */
export class Requests {
  readonly #timetable: Timetable
  readonly #waiting = new Set<Request>()

  constructor(timetable: Timetable) {
    this.#timetable = timetable
  }

  get all(): Iterable<Request> {
    return this.#waiting
  }

  add(request: Request): void {
    this.#waiting.add(request)
    for (const queue of request.queues) {
      queue.begins()
      // What is due there woke nobody as long as nobody waited for it.
      if (queue.waiting === 1)
        for (const { lanes } of queue.shards) for (const lane of lanes.values()) this.#timetable.file(lane)
    }
    this.#timetable.wakeAll()
  }

  /** It has been answered, or nobody waits for the answer. */
  remove(request: Request): void {
    if (!this.#waiting.delete(request)) return
    for (const queue of request.queues) queue.ends()
  }

  /** Whether something is known to be due for it. */
  isDue({ queues }: Request): boolean {
    return this.#timetable.due(0).some(({ of: lane }) => queues.includes(lane.shard.served as ConsumedQueue))
  }

  /** Answers whoever has as much as was asked for, or as it may have, or all that is known to be due. */
  answer(): void {
    const due = new Set<ConsumedQueue>()
    for (const { of: lane } of this.#timetable.due(0)) due.add(lane.shard.served as ConsumedQueue)
    const mayGive = (queue: ConsumedQueue) => due.has(queue) || queue.isAsked
    for (const request of this.#waiting) {
      if (request.isAsking) continue
      if (request.isTrying && !request.queues.some(mayGive)) request.endTrial()
      const takesWhatIsThere = request.hasTaken || !request.isPatient
      const mayHaveMore = request.left > 0 && request.hasTime
      if (mayHaveMore && (!takesWhatIsThere || request.queues.some(mayGive))) continue
      this.remove(request)
      request.end()
    }
  }

  clear(): Request[] {
    const all = [...this.#waiting]
    for (const request of all) this.remove(request)
    return all
  }

  /** Those that could have jobs of the queue under a lease of `lease` ms, and for whom no claim is under way. */
  *for(queue: ConsumedQueue, lease: number): Iterable<Request> {
    for (const request of this.#waiting)
      if (!request.isAsking && request.lease === lease && request.left > 0 && request.queues.includes(queue))
        yield request
  }
}
