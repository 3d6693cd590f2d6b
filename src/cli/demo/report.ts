import { type Outcome, pickUp, rate } from './outcome.ts'
import { table } from './table.ts'
import { faultsOf } from './verdict.ts'
import { closing, definitions } from './words.ts'

/** Prints the result, and returns the exit code. */
export function report(outcome: Outcome, json: boolean): number {
  if (json) console.log(JSON.stringify(plain(outcome), null, 2))
  else console.log(['', table(outcome), definitions(outcome.naive), closing(outcome)].join('\n'))
  return succeeded(outcome) ? 0 : 1
}

/** Ordered: nothing went wrong. Naive: something did go wrong, as it is meant to show. */
export function succeeded({ naive, verdict }: Outcome): boolean {
  const faults = faultsOf(verdict)
  return naive ? faults > 0 : faults === 0 && verdict.waiting === 0 && verdict.sent > 0
}

function plain(outcome: Outcome) {
  const { naive, orders, planned, verdict, seconds, processors, inWorkAtKill, deadlocks, warnings } = outcome
  return {
    mode: naive ? 'naive' : 'lockstep',
    passed: succeeded(outcome),
    orders,
    planned,
    ...verdict,
    seconds: Math.round(seconds * 10) / 10,
    rate: rate(outcome),
    processors: { count: processors.count, busy: Math.round(processors.busy * 100) / 100 },
    pickUpMs: pickUp(outcome, false),
    rescuedPickUpMs: pickUp(outcome, true),
    inWorkAtKill,
    deadlocks,
    warnings,
  }
}
