import TinyQueue from 'tinyqueue'
import type { Lane } from './lane.ts'

/** Valid as long as its lane has the same time. */
interface Appointment {
  readonly at: number
  readonly lane: Lane
}

/** How many there may be beyond twice the valid ones, before the others are removed. */
const SPARE = 64

/** Lanes with something to come, the next first. Times are in microseconds since 1970. */
export class Appointments {
  #heap = heapOf([])
  #most = SPARE

  get size(): number {
    return this.#heap.length
  }

  /** The time of the first; Infinity if there is none. It may no longer be valid. */
  get next(): number {
    return this.#heap.peek()?.at ?? Number.POSITIVE_INFINITY
  }

  /** Replaces the lane's last one. */
  make(lane: Lane, at: number): void {
    if (lane.looksAt === at) return
    lane.looksAt = at
    this.#heap.push({ at, lane })
    if (this.size > this.#most) this.#tidy()
  }

  cancel(lane: Lane): void {
    lane.looksAt = Number.POSITIVE_INFINITY
  }

  /** Removes what is due by now, and yields its lanes. */
  *due(now: number): Iterable<Lane> {
    while (this.next <= now) {
      const { at, lane } = this.#heap.pop()!
      if (lane.looksAt !== at) continue
      this.cancel(lane)
      yield lane
    }
  }

  /**
   * Removes what is not valid, and duplicates: a lane that is due again and again before the same far time leaves one
   * behind each time.
   */
  #tidy(): void {
    const counting = new Map(
      this.#heap.data.filter(({ at, lane }) => lane.looksAt === at).map((one) => [one.lane, one]),
    )
    this.#heap = heapOf([...counting.values()])
    this.#most = 2 * this.size + SPARE
  }
}

function heapOf(appointments: Appointment[]): TinyQueue<Appointment> {
  return new TinyQueue(appointments, (a, b) => a.at - b.at)
}
