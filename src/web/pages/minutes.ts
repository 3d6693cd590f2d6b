import type { QueueMinute } from '../../store/minutes.ts'
import type { Bar } from './chart.tsx'

const MINUTE = 60_000
/** How many bars, and the minutes of each. */
const SPANS = { hour: { bars: 60, minutes: 1 }, day: { bars: 144, minutes: 10 } } as const

/** A bar for each span of time, also for those in which nothing ended. The last one is still going on. */
export function barsOf(minutes: readonly QueueMinute[], span: keyof typeof SPANS, now: number): Bar[] {
  const { bars, minutes: each } = SPANS[span]
  const width = each * MINUTE
  const first = Math.floor(now / width) * width - (bars - 1) * width
  const all = Array.from({ length: bars }, (_, at) => ({
    from: new Date(first + at * width),
    processed: 0,
    failed: 0,
  }))
  for (const { minute, processed, failed } of minutes) {
    const bar = all[Math.floor((minute.getTime() - first) / width)]
    if (!bar) continue
    bar.processed += processed
    bar.failed += failed
  }
  return all
}

/** Of lists with the same spans. */
export function sumOf(lists: readonly (readonly Bar[])[]): Bar[] {
  const [first = [], ...others] = lists
  return first.map((bar, at) => ({
    from: bar.from,
    processed: others.reduce((sum, list) => sum + list[at]!.processed, bar.processed),
    failed: others.reduce((sum, list) => sum + list[at]!.failed, bar.failed),
  }))
}
