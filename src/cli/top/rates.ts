import type { QueueStats } from '../../index.ts'

/** ms; longer than the time between two additions to the counts, so that rates don't jump. */
const WINDOW = 10_000

interface Sample {
  readonly at: number
  readonly ended: ReadonlyMap<string, number>
}

/** Rounds a second, from counts at several times. */
export class Rates {
  #samples: Sample[] = []

  /** By queue, over the last ten seconds; empty after the first look. `now` is in ms of any clock. */
  after(
    queues: readonly Pick<QueueStats, 'queue' | 'processed' | 'failed'>[],
    now: number,
  ): Map<string, number> {
    const ended = new Map(queues.map(({ queue, processed, failed }) => [queue, processed + failed]))
    const recent = this.#samples.findIndex(({ at }) => now - at <= WINDOW)
    // One look before the window stays, so that it is covered in full.
    this.#samples = [...this.#samples.slice(recent < 0 ? -1 : Math.max(0, recent - 1)), { at: now, ended }]
    const [first] = this.#samples
    const seconds = (now - first!.at) / 1000
    if (seconds === 0) return new Map()
    return new Map(
      [...ended].map(([queue, total]) => [queue, (total - (first!.ended.get(queue) ?? total)) / seconds]),
    )
  }
}
