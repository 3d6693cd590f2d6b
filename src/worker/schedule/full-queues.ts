import { LONGEST_WAIT } from '../lifecycle/bell.ts'
import type { ServedQueue } from './served-queue.ts'

/** Queues whose limits had no room when they were last seen to, with timers for when a lane of theirs is asked again. */
export class FullQueues {
  readonly #timers = new Map<ServedQueue, NodeJS.Timeout>()

  get isEmpty(): boolean {
    return this.#timers.size === 0
  }

  has(served: ServedQueue): boolean {
    return this.#timers.has(served)
  }

  /** The limits of a queue may have another state. `now`: µs of the server's clock. `askAgain` is called when its time has come. */
  see(served: ServedQueue, now: number, askAgain: () => void): void {
    clearTimeout(this.#timers.get(served))
    this.#timers.delete(served)
    const { fullUntil } = served.withheldLanes
    if (fullUntil === 0) return
    const pause = Math.max(0, Math.ceil((fullUntil - now) / 1000))
    const timer = setTimeout(askAgain, Math.min(pause, LONGEST_WAIT))
    timer.unref()
    this.#timers.set(served, timer)
  }

  /** Nothing is known of limits any more: without a timer, a queue would stay full for ever. */
  clear(): void {
    for (const [served, timer] of this.#timers) {
      clearTimeout(timer)
      served.withheldLanes.open()
    }
    this.#timers.clear()
  }
}
