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
  ['processing, defaults', 'work-10', 'default'],
  ['processing, best', 'work-10', 'best'],
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

const DAILY = [
  ['100 single pushes/s, p50 in ms', 'single-100', 'value'],
  ['100 single pushes/s, p99 in ms', 'single-100', 'p99'],
  ['800 single pushes/s, p50 in ms', 'single-800', 'value'],
  ['800 single pushes/s, p99 in ms', 'single-800', 'p99'],
  ['2,000 single pushes/s, p50 in ms', 'single-2000', 'value'],
  ['2,000 single pushes/s, p99 in ms', 'single-2000', 'p99'],
  ['pushed up to 20 ms before COMMIT, p99 in ms', 'early-20', 'p99'],
  ['pushed up to 100 ms before COMMIT, p99 in ms', 'early-100', 'p99'],
  ['pushed up to 1,000 ms before COMMIT, p99 in ms', 'early-1000', 'p99'],
  ['a second process joins and leaves, p99 in ms', 'joining', 'p99'],
  ['a job beside another queue’s backlog, p99 in ms', 'backlog', 'p99'],
  ['100 jobs of 500 ms by 50 slots, all in ms', 'slow-50', 'value'],
  ['pick-up by 5 slots on 5 shards, p50 in ms', 'pick-up-5-5', 'value'],
  ['pick-up by 200 slots on 2,000 shards, p50 in ms', 'pick-up-200-2000', 'value'],
  ['64 slots on 128 shards, jobs/s of 5 ms each', 'slots-64', 'value'],
  ['256 slots on 512 shards, jobs/s of 5 ms each', 'slots-256', 'value'],
  ['1,000 slots on 2,000 shards, jobs/s of 5 ms each', 'slots-1000', 'value'],
  ['jobs that fail, jobs/s', 'failing', 'value'],
  ['three queues, scheduler lag, jobs/s', 'scheduler-lag', 'value'],
  ['three queues, the default scheduler, jobs/s', 'scheduler-fair', 'value'],
  ['three queues, scheduler strict, jobs/s', 'scheduler-strict', 'value'],
  ['three queues, scheduler seq, jobs/s', 'scheduler-seq', 'value'],
  ['three queues, scheduler weighted, jobs/s', 'scheduler-weighted', 'value'],
  ['three queues, a scheduler of one’s own, jobs/s', 'scheduler-own', 'value'],
  ['an idle worker, transactions/s', 'idle-1', 'value'],
  ['10 idle workers, transactions/s', 'idle-10', 'value'],
] as const

const FOOTPRINT = [
  ['importing it, p50 in ms', 'import'],
  ['a producer at rest, MB', 'producer-memory'],
  ['a worker at rest, MB', 'worker-memory'],
  ['packages that an `npm install` brings', 'installed-packages'],
  ['their size, MB', 'installed-size'],
  ['an idle worker, transactions/s', 'idle-1'],
] as const

const ON_POSTGRES = [LOCKSTEP, ...POSTGRES_PEERS] as const
const LIGHT = [LOCKSTEP, 'graphile-worker', 'pg-boss'] as const
const ANYWHERE = [...ON_POSTGRES, ...REDIS_PEERS] as const

/** The tables of docs/performance.md. */
export function markdownOf(summary: Summary): string {
  const tables = [ratesOf, timesOf, dailyOf, footprintOf, goalsOf, costsOf].map((of) => of(summary))
  return tables.filter((table) => table !== '').join('\n\n')
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

/** What was measured in everyday cases; empty if nothing was. */
export function dailyOf(summary: Summary): string {
  const rows = DAILY.flatMap(([title, benchCase, pick]) => {
    const figures = ON_POSTGRES.map((name) => summary.find(benchCase, name)?.[pick])
    return figures.some((one) => one !== undefined) ? [[title, ...figures.map(figure)]] : []
  })
  return rows.length > 0 ? numbers(['in daily life', ...ON_POSTGRES.map(titleOf)], rows) : ''
}

/** What an application takes on with a queue; empty if nothing was measured. */
export function footprintOf(summary: Summary): string {
  const rows = FOOTPRINT.map(([title, benchCase]) => [
    title,
    ...LIGHT.map((name) => figure(summary.find(benchCase, name)?.value)),
  ])
  const isEmpty = rows.every(([, ...figures]) => figures.every((one) => one === figure(undefined)))
  return isEmpty ? '' : numbers(['footprint', ...LIGHT.map(titleOf)], rows)
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

/** A table in which all columns but the first are figures. */
function numbers(head: readonly string[], rows: readonly string[][]): string {
  return table(head, ['---', ...head.slice(1).map(() => '---:')], rows)
}

function table(head: readonly string[], alignment: readonly string[], rows: readonly string[][]): string {
  return [head, alignment, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
