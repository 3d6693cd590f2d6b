import Table from 'cli-table3'
import pc from 'picocolors'
import { count, plural } from '../output.ts'
import { type Outcome, type PickUp, pickUp, rate } from './outcome.ts'

type Row = readonly [what: string, answer: string]

/** Answers what a sceptic would ask. */
export function table(outcome: Outcome): string {
  const drawn = new Table({
    colAligns: ['left', 'right'],
    style: { head: [], border: [] },
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
  })
  drawn.push(...[...counts(outcome), ...faults(outcome), ...speed(outcome)].map((row) => [...row]))
  return drawn.toString()
}

function counts({ verdict }: Outcome): Row[] {
  const rows: Row[] = [
    ['Events sent (committed)', count(verdict.sent)],
    ['Rolled back on purpose, in addition to those', count(verdict.rolledBack)],
    ['Applied', count(verdict.applied)],
  ]
  if (verdict.waiting > 0) rows.push(['Still in the queue when time was up', pc.red(count(verdict.waiting))])
  return rows
}

function faults({ verdict, naive, deadlocks }: Outcome): Row[] {
  const rows: Row[] = [
    ['Lost', judged(verdict.lost)],
    ['Applied twice', judged(verdict.appliedTwice)],
    ['Traces of rolled-back events', judged(verdict.traces)],
    ['Applied out of order', judged(verdict.outOfOrder)],
    ['Two handlers on one order at once', judged(verdict.overlaps)],
    ['Old data written over new', judged(verdict.setbacks)],
    ['Orders that ended on an old version', judged(verdict.outdated)],
  ]
  if (naive) rows.push(['Deadlocks', judged(deadlocks)])
  return rows
}

function speed(outcome: Outcome): Row[] {
  const { verdict, naive, processors } = outcome
  const rows: Row[] = [
    ['Committed too late to be in order: recognised, not written', count(verdict.late)],
    [
      'Updates of an order that a handler got at once',
      `${verdict.merged.average.toFixed(1)}, at most ${verdict.merged.most}`,
    ],
    ['Rate', `${count(rate(outcome))} events/s over ${outcome.seconds.toFixed(1)} s`],
    [`Processors busy, of ${processors.count}`, `${Math.round(processors.busy * 100)} %`],
    ['Pick-up, due to handler: median / 99 % / slowest', waits(pickUp(outcome, false))],
  ]
  if (!naive) {
    const rescued = pickUp(outcome, true)
    const what = `Slowest pick-up of orders that the killed worker had taken (${plural(rescued?.count ?? 0, 'order')})`
    rows.push([what, rescued ? ms(rescued.slowest) : 'none'])
  }
  return rows
}

function judged(faults: number): string {
  return faults === 0 ? pc.green('0') : pc.red(count(faults))
}

function waits(wait: PickUp | null): string {
  return wait ? [wait.median, wait.p99, wait.slowest].map(ms).join(' / ') : 'none'
}

function ms(wait: number): string {
  return wait < 1_000 ? `${Math.round(wait)} ms` : `${(wait / 1000).toFixed(1)} s`
}
