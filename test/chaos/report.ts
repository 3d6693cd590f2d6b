import Table from 'cli-table3'
import type { Finding } from '../support/checker.ts'
import type { Blow } from './battle.ts'
import type { Fault } from './fault.ts'
import { complaints, type Verdict } from './judge.ts'
import { median } from './load/figures.ts'
import type { Endurance } from './load/load.ts'
import type { Recovery } from './recovery.ts'

const HEAD = [
  'fault',
  'times',
  'overlaps',
  'inversions',
  'lost',
  'stale accepted',
  'over limits',
  'starved',
  'slowest recovery',
]
const SHOWN = 20

/** One row for each fault: what was found while the fault, or what it broke, lasted. */
export function drawReport(blows: readonly Blow[], faults: readonly Fault[], verdict: Verdict): string {
  const table = drawnTable(HEAD)
  for (const fault of faults) {
    const mine = blows.filter((blow) => blow.faults.includes(fault))
    if (mine.length > 0) table.push(rowOf(fault.name, mine, verdict))
  }
  table.push(['all', String(count(blows)), ...figures(verdict, () => true), slowest(blows)])
  return table.toString()
}

/** How long it took until work went on, and how long it may take. */
export function drawRecoveries(recoveries: readonly Recovery[]): string {
  const table = drawnTable(['work goes on', 'median', 'slowest', 'limit', ''])
  for (const { what, limit, took } of recoveries) {
    const slowest = Math.max(...took)
    const verdict = slowest <= limit ? 'reached' : 'MISSED'
    table.push([what, ...[median(took), slowest, limit].map(inSeconds), verdict])
  }
  return table.toString()
}

/** How memory, tables and locks went under load, and whether every pushed payload is accounted for. */
export function drawEndurance({ courses, pushed, done, left }: Endurance): string {
  const table = drawnTable(['', 'at the start', 'at the end', 'highest', 'may grow to', ''])
  for (const { what, unit, growth, start, end, highest, grew } of courses) {
    const shown = [start, end, highest, growth ? start * growth : undefined].map((value) =>
      inUnit(value, unit),
    )
    table.push([what, ...shown, growth ? (grew ? 'GREW' : 'flat') : ''])
  }
  const rest = pushed - done
  const account = left === rest ? 'None is lost or done twice.' : `${rest} ought to be there.`
  return `${table}\n${pushed} payloads pushed, ${done} processed, ${left} wait. ${account}`
}

function inUnit(value: number | undefined, unit: 'MB' | ''): string {
  if (value === undefined) return ''
  return unit === 'MB' ? `${(value / 2 ** 20).toFixed(1)} MB` : String(Math.round(value))
}

function drawnTable(head: string[]): Table.Table {
  return new Table({
    head,
    style: { head: [], border: [] },
    colAligns: ['left', ...head.slice(1).map(() => 'right' as const)],
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
  })
}

function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function rowOf(name: string, mine: readonly Blow[], verdict: Verdict): string[] {
  const during = ({ at }: Finding) => mine.some(({ from, to }) => from <= at && at <= to)
  const alone = mine.filter(({ faults }) => faults.length === 1)
  return [name, String(mine.length), ...figures(verdict, during), slowest(alone)]
}

function figures(
  { overlaps, inversions, lost, stale, overLimits, starved }: Verdict,
  fits: (finding: Finding) => boolean,
): string[] {
  const all = [overlaps, inversions, lost, stale, overLimits, starved]
  return all.map((findings) => String(findings.filter(fits).length))
}

/** Only for faults that were injected alone: of several, the cause of a delay is unknown. */
function slowest(blows: readonly Blow[]): string {
  if (blows.length === 0) return '–'
  return inSeconds(Math.max(...blows.map(({ recovery }) => recovery)))
}

export function count(blows: readonly Blow[]): number {
  return blows.reduce((sum, { faults }) => sum + faults.length, 0)
}

/** What was done, and everything that went wrong. */
export function drawSummary(blows: readonly Blow[], verdict: Verdict, seconds: number): string {
  const kinds = new Set(blows.flatMap(({ faults }) => faults)).size
  const wrong = complaints(verdict)
  const rate = Math.round(verdict.payloads / seconds)
  const lines = [
    `${count(blows)} faults of ${kinds} kinds in ${Math.round(seconds)} s; ${verdict.payloads} payloads in ${verdict.rounds} rounds, ${rate}/s.`,
    `Repeated at least-once: ${verdict.repeats}; exactly-once: ${wrong.filter((one) => one.includes('applied')).length}.`,
    `The longest a handler went on after its process was stopped for longer than its lease: ${verdict.outlived.toFixed(0)} ms.`,
    `The longest anyone waited while others of its queue began: ${verdict.passedOver?.seconds ?? 0} s, ${verdict.passedOver?.id ?? 'none'}.`,
    `Runs that began in the same instant their process was stopped for longer than its lease: ${verdict.instants.length}.`,
    ...verdict.instants.map(({ id, what }) => `  ${id}: ${what}`),
    ...wrong.slice(0, SHOWN),
  ]
  if (wrong.length > SHOWN) lines.push(`… and ${wrong.length - SHOWN} more`)
  lines.push(wrong.length === 0 ? 'No promise was broken.' : `${wrong.length} findings.`)
  return lines.join('\n')
}
