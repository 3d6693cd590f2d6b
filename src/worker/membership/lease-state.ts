import { killProcess } from './last-words.ts'
import { monotonicMs } from './shared-clock.ts'

/** How many ms before the end of a lease of `lease` ms handlers are told to end. */
export function warningBefore(lease: number): number {
  return lease / 5
}

/** Places in the array: first the deadlines of two successive leases, then how many handlers run. */
const WORKING = 2
const NUMBERS = 3

/**
 * What the main thread and the lease thread share without messages. So a blocked event loop, or a process that was stopped
 * and goes on, sees the truth at once. `numbers` is passed to the other thread.
 *
 * The leases of a process are counted. The deadline of each has its own place, apart from that of the lease before: a
 * thread that has not heard of the new lease yet must not take its deadline for that of the old one.
 */
export class LeaseState {
  readonly numbers: Float64Array<SharedArrayBuffer>

  constructor(numbers = new Float64Array(new SharedArrayBuffer(NUMBERS * Float64Array.BYTES_PER_ELEMENT))) {
    this.numbers = numbers
  }

  /** When that lease ends, in ms of the monotonic clock; 0 if it never began. */
  deadlineOf(lease: number): number {
    return this.numbers[lease % WORKING]!
  }

  /** How many handlers run. Only the main thread writes it. */
  get working(): number {
    return this.numbers[WORKING]!
  }

  /**
   * Kills the process if handlers still run when a tenth of that lease, of `length` ms, is left: on a busy machine, neither
   * the timer nor the death comes at once.
   */
  killBeforeEnd(lease: number, length: number): NodeJS.Timeout {
    return setTimeout(
      () => {
        if (this.working > 0) void killProcess(this.working)
      },
      Math.max(0, this.deadlineOf(lease) - length / 10 - monotonicMs()),
    )
  }

  setDeadline(lease: number, deadline: number): void {
    this.numbers[lease % WORKING] = deadline
  }

  setWorking(count: number): void {
    this.numbers[WORKING] = count
  }
}
