/** A look starts at least this many ms before the cursor: most transactions are shorter. */
const SHORTEST = 250
/** And at most this many ms: the regular full look finds jobs that are committed even later. */
const LONGEST = 2_000
/** ms for which a lateness counts, at least; at most twice as long. */
const MEMORY = 10_000

/**
 * How much later than their push jobs are committed. A cursor passes the time of a push whose transaction is still open. So
 * a look starts some way before the cursor, and further before it the later recent jobs were. Moments are in ms of the
 * monotonic clock.
 */
export class Lateness {
  #since = Number.NEGATIVE_INFINITY
  /** ms, since `#since`. */
  #longest = 0
  /** ms, in the period before that. */
  #longestBefore = 0

  /** A job was found that was due `micros` µs before the cursor. */
  note(micros: number, now: number): void {
    this.#turn(now)
    this.#longest = Math.max(this.#longest, micros / 1000)
  }

  /** How many µs before the cursor a look starts. */
  span(now: number): number {
    this.#turn(now)
    const longest = Math.max(this.#longest, this.#longestBefore)
    return Math.min(Math.max(2 * longest, SHORTEST), LONGEST) * 1000
  }

  #turn(now: number): void {
    const passed = now - this.#since
    if (passed < MEMORY) return
    this.#longestBefore = passed < 2 * MEMORY ? this.#longest : 0
    this.#longest = 0
    this.#since = now
  }
}
