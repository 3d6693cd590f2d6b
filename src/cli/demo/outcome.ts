import type { ProcessorUse } from './processors.ts'
import type { Verdict } from './verdict.ts'

/** The result of a run of the demo. */
export interface Outcome {
  readonly naive: boolean
  readonly orders: number
  /** Number of updates to send; a very busy machine sends fewer. */
  readonly planned: number
  readonly verdict: Verdict
  /** From the first commit to the last update applied. */
  readonly seconds: number
  /** From the first update until all were applied. */
  readonly processors: ProcessorUse
  /** `wait`: ms from due to the start of the handler; `rescued`: from a process that died. */
  readonly pickUps: readonly { readonly wait: number; readonly rescued: boolean }[]
  /** Orders that the killed worker's handlers had. */
  readonly inWorkAtKill: number
  readonly deadlocks: number
  /** Warnings logged by workers. */
  readonly warnings: readonly string[]
}

/** ms that orders waited for a handler. */
export interface PickUp {
  readonly count: number
  readonly median: number
  readonly p99: number
  readonly slowest: number
}

/** Null if nothing was picked up. */
export function pickUp({ pickUps }: Outcome, rescued: boolean): PickUp | null {
  const waits = pickUps.filter((one) => one.rescued === rescued).map(({ wait }) => wait)
  if (waits.length === 0) return null
  waits.sort((one, other) => one - other)
  const at = (part: number) => Math.round(waits[Math.ceil(waits.length * part) - 1]! * 10) / 10
  return { count: waits.length, median: at(0.5), p99: at(0.99), slowest: at(1) }
}

/** Updates applied per second. */
export function rate({ verdict, seconds }: Outcome): number {
  return seconds === 0 ? 0 : Math.round(verdict.applied / seconds)
}
