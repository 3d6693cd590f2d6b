import type { ProcessSight } from '../../store/process.ts'

/** The processes that take turns comparing: how many they are, and the place of this one among them. */
export interface Ring {
  readonly size: number
  /** Below 0 if this process is not one of them. */
  readonly place: number
}

/** Decides whether a process may wait for its turn. */
export interface Needs {
  /** Whether something of its own is pending that no other process checks or would report. */
  readonly own: boolean
  /** Whether it would hear what others report. */
  readonly hears: boolean
}

/** Most rebalance intervals from one turn of a process to its next, however many processes there are. */
const LONGEST_TURN = 10
/** A turn that comes within this part of a rebalance interval counts as already taken, since a timer may be early. */
const EARLY = 0.1

/** The processes that share the work take turns. Quiet ones do not, since they may end at any time. */
export function ringOf(processes: readonly ProcessSight[], processId: number): Ring {
  const ring = processes.filter(({ connected, quiet }) => connected && !quiet)
  return { size: ring.length, place: ring.findIndex((one) => one.processId === processId) }
}

/**
 * ms from one comparison of this process to its next. Processes take turns by the server's clock `now` (ms), which all of
 * them follow. A process that sees a change reports it, so that not each has to see it. Of n processes, each compares every
 * n - 1 rebalance intervals, so that even without one of them there is a comparison per rebalance interval.
 *
 * So while all live, any change is seen within a rebalance interval. The death of one process is seen within two, since the
 * next turn may have been its own; the death of k at once within k + 1; and within ten in any case, since every process
 * takes its turn at least that often.
 */
export function untilTurn(
  rebalanceInterval: number,
  { size, place }: Ring,
  { own, hears }: Needs,
  now: number,
): number {
  if (own || !hears || place < 0) return rebalanceInterval
  const turn = rebalanceInterval * Math.min(Math.max(size - 1, 1), LONGEST_TURN)
  const wait = ((((place * turn) / size - now) % turn) + turn) % turn
  return wait < rebalanceInterval * EARLY ? wait + turn : wait
}
