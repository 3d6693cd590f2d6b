import { killProcess } from './last-words.ts'

/** ms on a clock that all threads share and that nobody sets. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000
}

/** ms before the end of a lease of so many ms at which handlers are told to end. */
export function warningBefore(lease: number): number {
  return lease / 5
}

const DEADLINE = 0
const WORKING = 1

/**
 * What the main thread and the lease thread both see without a message, so that a blocked event loop, or a
 * process that was stopped and goes on, finds the truth at once. `numbers` is what is sent to the other thread.
 */
export class LeaseState {
  readonly numbers: Float64Array<SharedArrayBuffer>

  constructor(numbers = new Float64Array(new SharedArrayBuffer(2 * Float64Array.BYTES_PER_ELEMENT))) {
    this.numbers = numbers
  }

  /** When the lease ends, in ms of the monotonic clock; 0 where none runs. */
  get deadline(): number {
    return this.numbers[DEADLINE]!
  }

  /** How many handlers run. Written by the main thread alone. */
  get working(): number {
    return this.numbers[WORKING]!
  }

  /**
   * Kills the process if handlers still run when a tenth of a lease of so many ms is left: on a busy machine
   * neither the timer nor the death comes at once.
   */
  killBeforeEnd(lease: number): NodeJS.Timeout {
    return setTimeout(
      () => {
        if (this.working > 0) void killProcess(this.working)
      },
      this.deadline - lease / 10 - monotonicMs(),
    )
  }

  setDeadline(deadline: number): void {
    this.numbers[DEADLINE] = deadline
  }

  setWorking(count: number): void {
    this.numbers[WORKING] = count
  }
}
