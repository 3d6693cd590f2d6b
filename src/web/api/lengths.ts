import type { Overview } from '../reads/reads.ts'

/** As Lowkiq shows a queue: what waits and the morgue, both counted in ids, and the lag in s. */
export interface Lengths {
  readonly length: number
  readonly morgue_length: number
  readonly lag: number
}

/** A queue has at most one waiting entry for an id, so those that wait are counted in ids anyway. */
export function lengthsOf({ queues, total, deadIds }: Overview): {
  readonly total: Lengths
  readonly by_worker: Readonly<Record<string, Lengths>>
} {
  const entries = queues.map(({ queue, waiting, lag }): [string, Lengths] => [
    queue,
    { length: waiting, morgue_length: deadIds.get(queue) ?? 0, lag: lag / 1_000 },
  ])
  const morgue = entries.reduce((sum, [, { morgue_length }]) => sum + morgue_length, 0)
  return {
    total: { length: total.waiting, morgue_length: morgue, lag: total.lag / 1_000 },
    by_worker: Object.fromEntries(entries),
  }
}
