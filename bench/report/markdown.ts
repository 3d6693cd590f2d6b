import { LOCKSTEP, type Name, POSTGRES_PEERS, REDIS_PEERS } from '../entrants.ts'
import { outcomesOf } from './goals.ts'
import type { Line, Summary } from './summary.ts'
import { format } from './table.ts'

const TITLES: Partial<Record<Name, string>> = {
  bullmq: 'BullMQ',
  'bullmq on redis': 'BullMQ on Redis',
  'bullmq on redis, fsync': 'with fsync',
}

const RATES = [
  ['one producer, one by one', 'enqueue-1', 'default'],
  ['ten producers, one by one', 'enqueue-10', 'default'],
  ['bulk enqueue of 1,000', 'enqueue-bulk', 'default'],
  ['work off, defaults', 'work-10', 'default'],
  ['work off, best', 'work-10', 'best'],
  ['10 keys in strict order', 'order-10-interleaved', 'best'],
  ['1,000 keys', 'order-1000-interleaved', 'best'],
  ['10,000 keys', 'order-10000-interleaved', 'best'],
] as const

const TIMES = [
  ['pick-up, p50', 'pick-up', 'value'],
  ['pick-up, p99', 'pick-up', 'p99'],
  ['start after due time, p99', 'due-time', 'p99'],
  ['2,000 jobs/s, p99', 'steady', 'p99'],
  ['with a snapshot held, p99', 'steady-held', 'p99'],
] as const

const ON_POSTGRES = [LOCKSTEP, ...POSTGRES_PEERS] as const
const ANYWHERE = [...ON_POSTGRES, ...REDIS_PEERS] as const

/** The tables of the README and of docs/performance.md. */
export function markdownOf(summary: Summary): string {
  return [ratesOf, timesOf, goalsOf, costsOf].map((of) => of(summary)).join('\n\n')
}

export function ratesOf(summary: Summary): string {
  const rows = RATES.map(([title, benchCase, configuration]) => [
    title,
    ...ANYWHERE.map((name) => figure(summary.find(benchCase, name, configuration)?.value)),
  ])
  return numbers(['jobs/s', ...ANYWHERE.map(titleOf)], rows)
}

export function timesOf(summary: Summary): string {
  const rows = TIMES.map(([title, benchCase, pick]) => [
    title,
    ...ON_POSTGRES.map((name) => figure(summary.find(benchCase, name)?.[pick])),
  ])
  return numbers(['ms', ...ON_POSTGRES.map(titleOf)], rows)
}

export function goalsOf(summary: Summary): string {
  const rows = outcomesOf(summary).map(({ title, goal, outcome, figures }) => [
    `${title}: ${goal}`,
    outcome,
    figures,
  ])
  return table(['aim', '', 'measured'], ['---', '---', '---'], rows)
}

export function costsOf(summary: Summary): string {
  const rows = RATES.flatMap(([title, benchCase, configuration]) =>
    ON_POSTGRES.flatMap((name) => {
      const line = summary.find(benchCase, name, configuration)
      return line ? [[`${title}: ${titleOf(name)}`, ...costs(line)]] : []
    }),
  )
  return numbers(['a job', 'commits', 'WAL bytes', 'Node µs', 'server µs'], rows)
}

function costs({ commits, walBytes, nodeCpu, serverCpu }: Line): string[] {
  return [commits, walBytes, nodeCpu, serverCpu].map(figure)
}

function titleOf(name: Name): string {
  return TITLES[name] ?? name
}

function figure(value: number | undefined): string {
  return value === undefined ? '–' : format(value)
}

/** Whose columns are figures, all but the first. */
function numbers(head: readonly string[], rows: readonly string[][]): string {
  return table(head, ['---', ...head.slice(1).map(() => '---:')], rows)
}

function table(head: readonly string[], alignment: readonly string[], rows: readonly string[][]): string {
  return [head, alignment, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
