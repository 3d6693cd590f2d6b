import type { Figures } from '../case.ts'
import type { Update, Watcher } from '../contender.ts'
import { Finish } from './finish.ts'
import { percentilesOf } from './percentile.ts'

/** ms since 1970, comparable between processes of one machine. */
export function wallClock(): number {
  return performance.timeOrigin + performance.now()
}

/** ms until handlers start, by the `seq` of their updates. A negative `seq`, as in a warm-up, does not count. */
export class Latencies implements Watcher {
  readonly #target: number
  readonly #begun = new Map<number, number>()
  readonly #latencies = new Map<number, number>()
  #repeated = 0
  readonly finish = new Finish()

  /** It is finished when this many have started. */
  constructor(target: number) {
    this.#target = target
  }

  begins(seq: number, at = wallClock()): void {
    if (seq >= 0) this.#begun.set(seq, at)
  }

  started(seq: number, at = wallClock()): void {
    if (seq < 0) return
    if (this.#latencies.has(seq)) this.#repeated += 1
    else this.#latencies.set(seq, at - this.#begun.get(seq)!)
    if (this.#latencies.size >= this.#target) this.finish.reach()
  }

  starts(updates: readonly Update[]): void {
    for (const { seq } of updates) this.started(seq)
  }

  ends(): void {}

  /**
   * What has begun but not started counts with the time until now: a contender is not faster for leaving jobs behind.
   * @throws Error if something was started twice
   */
  figures(): Figures {
    if (this.#repeated > 0) throw new Error(`${this.#repeated} jobs were started twice`)
    const now = wallClock()
    const latencies = [...this.#begun].map(([seq, at]) => this.#latencies.get(seq) ?? now - at)
    return { ...percentilesOf(latencies), undone: this.#target - this.#latencies.size }
  }
}
