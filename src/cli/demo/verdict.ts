/** What must be 0. */
export interface Faults {
  /** Committed, and neither applied nor waiting. */
  readonly lost: number
  readonly appliedTwice: number
  /** In the shop's table or in the queue, though its transaction was rolled back; or the other way round. */
  readonly traces: number
  /**
   * Applied after a newer one of its order, although it had been committed before the newer one was taken; or
   * handed over behind a newer one within one run.
   */
  readonly outOfOrder: number
  /** Runs that began while another one had the same order. */
  readonly overlaps: number
  readonly setbacks: number
  /** Orders that ended on an older version than the newest that was sent. */
  readonly outdated: number
}

export interface Verdict extends Faults {
  readonly sent: number
  readonly rolledBack: number
  readonly applied: number
  readonly waiting: number
  /** Applied after a newer one because they were committed too late for it: nobody's fault but the sender's. */
  readonly late: number
  /** Updates of an order that a handler got at once. */
  readonly merged: { readonly average: number; readonly most: number }
}

export function faultsOf(verdict: Verdict): number {
  const { lost, appliedTwice, traces, outOfOrder, overlaps, setbacks, outdated } = verdict
  return lost + appliedTwice + traces + outOfOrder + overlaps + setbacks + outdated
}
