import pc from 'picocolors'
import { count, plural } from '../output.ts'
import { LEASE } from './ordered.ts'
import type { Outcome } from './outcome.ts'
import { faultsOf, type Verdict } from './verdict.ts'

const DEFINITIONS = `Out of order: applied after a newer update of the same order, although committed before that one was taken
from the queue. At once: by the clock of the workers' machine and their own notes, not the database's; a killed
worker's handlers count until its process is gone. Old over new: detected by a trigger.`

const LEASE_NOTE = `The killed worker's orders wait until its lease ends, here ${LEASE / 1000} s (default: 10 s).`

/** Explains the rows of the table, so that readers can question them. */
export function definitions(naive: boolean): string {
  return pc.dim(naive ? DEFINITIONS : `${DEFINITIONS}\n${LEASE_NOTE}`)
}

/** From this part of the processors' time on, everything waits for a free processor. */
const FULL = 0.85

/** The verdict in words, and what to read next. */
export function closing(outcome: Outcome): string {
  const lines = [
    '',
    ...(outcome.naive ? naiveVerdict(outcome) : verdict(outcome)),
    ...shortfall(outcome),
    ...fullness(outcome),
  ]
  const grouped = new Map<string, number>()
  for (const warning of outcome.warnings) grouped.set(warning, (grouped.get(warning) ?? 0) + 1)
  for (const [warning, times] of grouped)
    lines.push(pc.dim(`Workers warned ${plural(times, 'time')}: ${warning}`))
  const next = outcome.naive
    ? 'the same feed in order: npx lockstep demo'
    : 'what goes wrong without: npx lockstep demo --naive'
  return [...lines, '', `Next: README.md, npx lockstep --help, and ${next}`].join('\n')
}

function verdict({ verdict }: Outcome): string[] {
  if (faultsOf(verdict) > 0)
    return [pc.red('This must not happen: please report it, with the table above.'), ...faultWords(verdict)]
  if (verdict.waiting > 0)
    return [pc.yellow('The machine was too busy to finish in time: try fewer --events.')]
  return [
    pc.green(
      'Nothing lost, nothing twice, nothing out of order, never two handlers on one order; one worker was killed.',
    ),
  ]
}

function naiveVerdict({ verdict }: Outcome): string[] {
  if (faultsOf(verdict) === 0) return [pc.yellow('Nothing went wrong this time: try more --events.')]
  return [pc.red('What went wrong without order:'), ...faultWords(verdict)]
}

function faultWords(verdict: Verdict): string[] {
  const words: readonly (readonly [number, string])[] = [
    [verdict.lost, 'an update was committed and never applied'],
    [verdict.appliedTwice, 'an update was applied twice'],
    [verdict.traces, 'a rolled-back transaction left a trace, or a domain row lacks its event'],
    [
      verdict.outOfOrder,
      'an update was applied after a newer one although it was waiting when that one was taken',
    ],
    [verdict.overlaps, 'a handler began while another one was busy with the same order'],
    [verdict.setbacks, 'a handler overwrote newer data with older'],
    [verdict.outdated, 'an order was left on an old version for good'],
  ]
  return words.filter(([faults]) => faults > 0).map(([faults, what]) => `  ${count(faults)} × ${what}`)
}

function fullness({ processors }: Outcome): string[] {
  if (processors.busy < FULL) return []
  return [
    pc.dim(
      'The machine was busy all the time, so orders had to wait: docs/performance.md has figures of quieter ones.',
    ),
  ]
}

function shortfall({ verdict, planned }: Outcome): string[] {
  if (verdict.sent === planned) return []
  return [pc.dim(`The machine was too busy to send all ${count(planned)} in time.`)]
}
