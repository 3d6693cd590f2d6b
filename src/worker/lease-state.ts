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
const FIRST = 1
const WORKING = 2
const NUMBERS = 3

/**
 * What the main thread and the lease thread both see without a message, so that a blocked event loop, or a
 * process that was stopped and goes on, finds the truth at once. `numbers` is what is sent to the other thread.
 */
export class LeaseState {
  readonly numbers: BigInt64Array<SharedArrayBuffer>

  constructor(numbers = new BigInt64Array(new SharedArrayBuffer(NUMBERS * BigInt64Array.BYTES_PER_ELEMENT))) {
    this.numbers = numbers
  }

  /** When the lease ends, in ms of the monotonic clock; 0 where none runs. */
  get deadline(): number {
    return Number(Atomics.load(this.numbers, DEADLINE)) / 1000
  }

  /**
   * The first identity of this lease: those before it had another, which has ended. To be read after the deadline: whoever
   * sees that of a new lease sees its first identity too.
   */
  get first(): number {
    return Number(Atomics.load(this.numbers, FIRST))
  }

  /** How many handlers run. Written by the main thread alone. */
  get working(): number {
    return Number(Atomics.load(this.numbers, WORKING))
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
    Atomics.store(this.numbers, DEADLINE, BigInt(Math.floor(deadline * 1000)))
  }

  /** Before the deadline of its lease. */
  setFirst(processId: number): void {
    Atomics.store(this.numbers, FIRST, BigInt(processId))
  }

  setWorking(count: number): void {
    Atomics.store(this.numbers, WORKING, BigInt(count))
  }
}
