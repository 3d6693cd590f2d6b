import Table from 'cli-table3'
import type { Line, Summary } from './summary.ts'

const HEAD = [
  'case',
  'queue',
  'median',
  'range',
  'ours is',
  'p95',
  'p99',
  'commits',
  'WAL bytes',
  'Node µs',
  'server µs',
  'remarks',
]

/** One row for each contender and case; costs are per job. */
export function tableOf(summary: Summary): string {
  const table = new Table({ head: HEAD, style: { head: [], border: [] } })
  let last = ''
  for (const line of summary.lines) {
    const { name, title, unit } = line.benchCase
    table.push([last === name ? '' : title, `${line.name}, ${line.configuration}`, ...figuresOf(line, unit)])
    last = name
  }
  return `${table.toString()}\n\n${legendOf(summary)}`
}

function legendOf({ lines }: Summary): string {
  const told = lines.map((line) => `${line.name}, ${line.configuration}: ${line.told}`)
  return [
    'Costs are those of a job. More is better of jobs/s, less of all else. Configurations:',
    ...new Set(told),
  ].join('\n')
}

function figuresOf(line: Line, unit: string): string[] {
  const { value, lowest, highest, ratio, p95, p99, commits, walBytes, nodeCpu, serverCpu } = line
  return [
    `${format(value)} ${unit}`,
    `${format(lowest)}–${format(highest)}`,
    ratio === undefined || ratio === 1 ? '' : `${format(ratio)} ×`,
    ...[p95, p99, commits, walBytes, nodeCpu, serverCpu].map((figure) =>
      figure === undefined ? '' : format(figure),
    ),
    remarksOf(line),
  ]
}

export function remarksOf({ outOfOrder, undone, connections }: Line): string {
  const remarks = []
  if (outOfOrder) remarks.push(`${outOfOrder.toLocaleString('en')} out of order`)
  if (undone > 0) remarks.push(`${undone.toLocaleString('en')} not done in time`)
  if (connections) remarks.push(`${format(connections)} connections each`)
  return remarks.join('\n')
}

/** Three significant digits. */
export function format(value: number | null): string {
  // JSON has no NaN: the time of something that never happened is null.
  if (value === null || Number.isNaN(value)) return '–'
  if (value >= 100) return Number(value.toPrecision(3)).toLocaleString('en')
  if (value >= 10) return value.toFixed(1)
  return value >= 0.1 || value === 0 ? value.toFixed(2) : value.toPrecision(1)
}
