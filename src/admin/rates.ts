import type { QueueStats } from '../store/stats.ts'

/** ms; longer than the time between two updates of the counts, so that rates don't jump. */
const WINDOW = 10_000

interface Sample {
  readonly at: number
  readonly ended: ReadonlyMap<string, number>
}

/** Rounds per second, from counts at several times. */
export class Rates {
  #samples: Sample[] = []

  /** Rates by queue over the last ten seconds; empty at the first call. `now` is in ms of any clock. */
  after(
    queues: readonly Pick<QueueStats, 'queue' | 'processed' | 'failed'>[],
    now: number,
  ): Map<string, number> {
    const ended = new Map(queues.map(({ queue, processed, failed }) => [queue, processed + failed]))
    const recent = this.#samples.findIndex(({ at }) => now - at <= WINDOW)
    // Keeps one sample from before the window, so that the samples cover all of it.
    this.#samples = [...this.#samples.slice(recent < 0 ? -1 : Math.max(0, recent - 1)), { at: now, ended }]
    const [first] = this.#samples
    const seconds = (now - first!.at) / 1000
    if (seconds === 0) return new Map()
    return new Map(
      [...ended].map(([queue, total]) => [queue, (total - (first!.ended.get(queue) ?? total)) / seconds]),
    )
  }
}
