import type { ProcessSight } from '../../store/process.ts'

/** Of those that take turns at comparing: how many they are, and the place of this process among them. */
export interface Ring {
  readonly size: number
  /** Below 0: it is not one of them. */
  readonly place: number
}

/** What keeps a process from waiting for its turn. */
export interface Needs {
  /** Something of its own is pending that no other process looks for, and nobody would tell it of. */
  readonly own: boolean
  /** It would hear of what others see. */
  readonly hears: boolean
}

/** Rebalance intervals from one turn of a process to its next at most, however many they are. */
const LONGEST_TURN = 10
/** A turn that comes within this part of a rebalance interval counts as had: a timer may be early. */
const EARLY = 0.1

/** Those that are there to share the work take turns. One that is quiet may go at any time. */
export function ringOf(processes: readonly ProcessSight[], processId: number): Ring {
  const ring = processes.filter(({ connected, quiet }) => connected && !quiet)
  return { size: ring.length, place: ring.findIndex((one) => one.processId === processId) }
}

/**
 * ms from one comparison of this process to its next. Processes take turns, by the server's clock `now` (ms), which all
 * of them follow: whoever sees a change tells the others, so that it need not be seen by each. Of n processes, each compares
 * every n - 1 rebalance intervals, so that even without one of them there is a comparison a rebalance interval.
 *
 * So whatever happens is seen within a rebalance interval while all live; the death of one within two, since the next turn may have
 * been its own; the death of k at once within k + 1, and within ten in any case: none takes its turn more rarely.
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
