import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { chartOf } from '../../bench/report/chart.ts'
import { goals, goalTable } from '../../bench/report/goals.ts'
import { costsOf, dailyOf, goalsOf, ratesOf, timesOf } from '../../bench/report/markdown.ts'
import { readRuns, Summary } from '../../bench/report/summary.ts'
import { tableOf } from '../../bench/report/table.ts'
import type { Run } from '../../bench/run.ts'

const run = (of: Partial<Run>): Run => ({
  case: 'work-10',
  name: 'pg-lockstep',
  configuration: 'best',
  told: 'slots 10',
  value: 1,
  ...of,
})

const verdict = (runs: readonly Run[], title: string, goal: string) =>
  goals.find((one) => one.title === title && one.goal === goal)!.reached(new Summary(runs))

test('a median of repeats counts, against the best of the peers', () => {
  const ours = [30, 50, 10].map((value) => run({ value }))
  const peers = [run({ name: 'pg-boss', value: 10 }), run({ name: 'bullmq on redis', value: 18 })]
  const best = verdict(
    [...ours, ...peers],
    'processing, best configuration',
    '1.6 × the best peer of any kind',
  )
  expect(best).toEqual({ reached: true, figures: '1.67 × (30.0 to 18.0 of bullmq on redis)' })
})

test('what was not measured is neither reached nor missed', () => {
  expect(goalTable(new Summary([run({})]))).toContain('not measured')
  expect(goalTable(new Summary([run({})]))).not.toContain('missed')
})

test('one update out of order misses the goal, and stands in the table', () => {
  const runs = [run({ case: 'order-10-interleaved', outOfOrder: 1 })]
  expect(verdict(runs, 'keys in strict order', 'none out of order, of ours')!.reached).toBe(false)
  expect(tableOf(new Summary(runs))).toContain('1 out of order')
})

test('what is aimed at in another case of ours is a share of it', () => {
  const runs = [run({ case: 'slots-64', configuration: 'default', value: 1000 })]
  const slots = (value: number) => [...runs, run({ case: 'slots-256', configuration: 'default', value })]
  const reached = (value: number) =>
    verdict(slots(value), '256 slots on twice as many shards', 'at least 0.9 × the rate of 64')
  expect([reached(899)!.reached, reached(900)!.reached]).toEqual([false, true])
  expect(reached(900)!.figures).toBe('0.90 × (900 to 1,000)')
})

test('transactions of idle workers are to be few, and stand in the tables with their connections', () => {
  const idle = (value: number) => [run({ case: 'idle-1', configuration: 'default', value, connections: 3 })]
  const few = (value: number) => verdict(idle(value), 'an idle worker', 'transactions a second below 4')
  expect([few(3.9)!.reached, few(4)!.reached]).toEqual([true, false])
  expect(tableOf(new Summary(idle(3.9)))).toMatch(/3\.90 tx\/s .* 3\.00 connections each/)
})

test('the table of daily life leaves out what was not measured, of all or of some', () => {
  expect(dailyOf(new Summary([run({})]))).toBe('')
  const failing = { case: 'failing', configuration: 'default' } as const
  const lines = dailyOf(new Summary([run({ ...failing, value: 900 }), run({ ...failing, name: 'pg-boss' })]))
  expect(lines.split('\n').slice(2)).toEqual(['| jobs that fail, jobs/s | 900 | – | 1.00 | – |'])
})

test('a chart has a bar for everybody', () => {
  const svg = chartOf(new Summary([run({}), run({ name: 'pg-boss' })]))
  expect(svg.match(/<rect/g)).toHaveLength(3)
  expect(svg).toContain('>pg-boss<')
})

test('tables and chart of the docs are those of the recorded run', async () => {
  const summary = new Summary(await readRuns('docs/speed.jsonl'))
  const [performance, chart] = await Promise.all(
    ['docs/performance.md', 'docs/speed.svg'].map((file) => readFile(file, 'utf8')),
  )
  const tables = [ratesOf, timesOf, dailyOf, goalsOf, costsOf].map((of) => of(summary))
  for (const table of tables) expect(performance).toContain(table)
  expect(chart).toBe(chartOf(summary))
})
