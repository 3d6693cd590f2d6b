import { percentile } from './percentile.ts'

/** How much two kinds of times differ: the mean of what blocks of them say, and the half of the interval that holds it 19 times of 20. */
export interface Difference {
  readonly mean: number
  readonly spread: number
}

/** Of the standard normal distribution. */
const AT_95_PERCENT = 1.96

/**
 * The first minus the second. Times of one place were measured side by side, and so many form a block. The shortest tenths of blocks are
 * compared, since longer times tell more of what else the machine does.
 */
export function differenceOf(
  first: readonly number[],
  second: readonly number[],
  perBlock: number,
): Difference {
  const differences: number[] = []
  for (let from = 0; from + perBlock <= Math.min(first.length, second.length); from += perBlock) {
    const block = (times: readonly number[]) => percentile(times.slice(from, from + perBlock), 10)
    differences.push(block(first) - block(second))
  }
  const blocks = differences.length
  if (blocks < 2) throw new Error('a difference needs two blocks of times or more')
  const mean = differences.reduce((sum, one) => sum + one) / blocks
  const variance = differences.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (blocks - 1)
  return { mean, spread: AT_95_PERCENT * Math.sqrt(variance / blocks) }
}
