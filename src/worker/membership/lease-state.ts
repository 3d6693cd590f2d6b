import { killProcess } from './last-words.ts'

/** From a thread's own clock, which begins with it, to the one that all threads share. */
const OFFSET = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/** ms on a clock that all threads share and that nobody sets. */
export function monotonicMs(): number {
  return performance.now() + OFFSET
}

/** ms before the end of a lease of so many ms at which handlers are told to end. */
export function warningBefore(lease: number): number {
  return lease / 5
}

/** Places: the deadlines of two leases that follow each other, and how many handlers run. */
const WORKING = 2
const NUMBERS = 3

/**
 * What the main thread and the lease thread both see without a message, so that a blocked event loop, or a
 * process that was stopped and goes on, finds the truth at once. `numbers` is what is sent to the other thread.
 *
 * The leases of a process are counted. Each has a place of its own for its deadline, apart from that of the one before: whoever
 * has not heard yet that there is another lease must not take its deadline for that of the one he knows.
 */
export class LeaseState {
  readonly numbers: Float64Array<SharedArrayBuffer>

  constructor(numbers = new Float64Array(new SharedArrayBuffer(NUMBERS * Float64Array.BYTES_PER_ELEMENT))) {
    this.numbers = numbers
  }

  /** When that lease ends, in ms of the monotonic clock; 0 where it never began. */
  deadlineOf(lease: number): number {
    return this.numbers[lease % WORKING]!
  }

  /** How many handlers run. Written by the main thread alone. */
  get working(): number {
    return this.numbers[WORKING]!
  }

  /**
   * Kills the process if handlers still run when a tenth of that lease, of so many ms, is left: on a busy machine
   * neither the timer nor the death comes at once.
   */
  killBeforeEnd(lease: number, length: number): NodeJS.Timeout {
    return setTimeout(
      () => {
        if (this.working > 0) void killProcess(this.working)
      },
      this.deadlineOf(lease) - length / 10 - monotonicMs(),
    )
  }

  setDeadline(lease: number, deadline: number): void {
    this.numbers[lease % WORKING] = deadline
  }

  setWorking(count: number): void {
    this.numbers[WORKING] = count
  }
}
