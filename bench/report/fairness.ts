import Table from 'cli-table3'
import type { Fairness } from '../case.ts'
import type { Summary } from './summary.ts'
import { format } from './table.ts'

const FIGURES: readonly (readonly [keyof Fairness, heading: string])[] = [
  ['makespan', 'makespan'],
  ['headMean', 'sd head mean'],
  ['headP90', 'sd head p90'],
  ['mean', 'sd mean'],
  ['p90', 'sd p90'],
]

/** How evenly tenants were served; undefined if that was not measured. */
export function fairnessTable(summary: Summary): string | undefined {
  const lines = summary.lines.filter(({ fairness }) => fairness.length > 0)
  if (lines.length === 0) return undefined
  const head = ['tenants, in s', ...FIGURES.map(([, heading]) => heading)]
  const table = new Table({ head, style: { head: [], border: [] } })
  for (const { benchCase, fairness } of lines)
    table.push([benchCase.title, ...FIGURES.map(([name]) => cellOf(fairness.map((one) => one[name])))])
  return table.toString()
}

/** The figures of the repeats. */
function cellOf(figures: readonly number[]): string {
  return figures.map(format).join(' ')
}
