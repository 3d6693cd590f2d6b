import type { Fairness } from '../case.ts'

/** How many of the jobs of a tenant that start first are its head. */
const HEAD = 20

/** What a tenant has pushed at once, and the starts of its jobs, in ms since 1970. */
export interface Bulk {
  readonly pushedAt: number
  readonly starts: readonly number[]
}

/** As faqueue measures it: latencies are from the push of a tenant's bulk, deviations those of the population. */
export function fairnessOf(bulks: readonly Bulk[]): Fairness {
  const latencies = bulks.map(({ pushedAt, starts }) =>
    starts.map((at) => (at - pushedAt) / 1000).toSorted((a, b) => a - b),
  )
  const heads = latencies.map((all) => all.slice(0, HEAD))
  const first = Math.min(...bulks.map(({ pushedAt }) => pushedAt))
  return {
    makespan: (Math.max(...bulks.flatMap(({ starts }) => starts)) - first) / 1000,
    headMean: deviation(heads.map(meanOf)),
    headP90: deviation(heads.map(p90Of)),
    mean: deviation(latencies.map(meanOf)),
    p90: deviation(latencies.map(p90Of)),
  }
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function p90Of(sorted: readonly number[]): number {
  return sorted[Math.floor(0.9 * sorted.length)]!
}

function deviation(values: readonly number[]): number {
  const mean = meanOf(values)
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2)))
}
