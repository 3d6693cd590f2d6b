/** Counts that must be 0. */
export interface Faults {
  /** Committed, but neither applied nor waiting. */
  readonly lost: number
  readonly appliedTwice: number
  /** In the shop's table or in the queue although its transaction was rolled back, or the other way round. */
  readonly traces: number
  /**
   * Applied after a newer update of its order although it was committed before the newer one was taken, or
   * placed behind a newer one within one run.
   */
  readonly outOfOrder: number
  /** Runs that began while another run had the same order. */
  readonly overlaps: number
  readonly setbacks: number
  /** Orders whose last version is older than the newest one sent. */
  readonly outdated: number
}

export interface Verdict extends Faults {
  readonly sent: number
  readonly rolledBack: number
  readonly applied: number
  readonly waiting: number
  /** Applied after a newer update because they were committed too late, which is the sender's fault. */
  readonly late: number
  /** Number of updates of an order that a handler got at once. */
  readonly merged: { readonly average: number; readonly most: number }
}

export function faultsOf(verdict: Verdict): number {
  const { lost, appliedTwice, traces, outOfOrder, overlaps, setbacks, outdated } = verdict
  return lost + appliedTwice + traces + outOfOrder + overlaps + setbacks + outdated
}
