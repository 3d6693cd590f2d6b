import TinyQueue from 'tinyqueue'
import type { Lane } from './lane.ts'

/** It counts as long as its lane says the same time. */
interface Appointment {
  readonly at: number
  readonly lane: Lane
}

/** How many there may be beyond twice those that count, before the others are thrown out. */
const SPARE = 64

/** Lanes of which something is to come, the next first. Times are in microseconds since 1970. */
export class Appointments {
  #heap = heapOf([])
  #most = SPARE

  get size(): number {
    return this.#heap.length
  }

  /** When the first is; Infinity: none. It may be one that no longer counts. */
  get next(): number {
    return this.#heap.peek()?.at ?? Number.POSITIVE_INFINITY
  }

  /** Instead of the lane's last one. */
  make(lane: Lane, at: number): void {
    if (lane.looksAt === at) return
    lane.looksAt = at
    this.#heap.push({ at, lane })
    if (this.size > this.#most) this.#tidy()
  }

  cancel(lane: Lane): void {
    lane.looksAt = Number.POSITIVE_INFINITY
  }

  /** Takes out what is due by now, and gives its lanes. */
  *due(now: number): Iterable<Lane> {
    while (this.next <= now) {
      const { at, lane } = this.#heap.pop()!
      if (lane.looksAt !== at) continue
      this.cancel(lane)
      yield lane
    }
  }

  /** A lane that is due again and again before the same far time leaves one behind each time. */
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
