/** ms before the cursor where a look starts, at least: most transactions are shorter. */
const SHORTEST = 250
/** And at most: what comes even later is found by the regular full look. */
const LONGEST = 2_000
/** ms for which a lateness counts, at least; twice as long at most. */
const MEMORY = 10_000

/**
 * How much later jobs are committed than they were pushed. A cursor passes the time of a push whose transaction is still open;
 * so a look starts some way before it, and the further, the later jobs have been of late. Moments are in ms of the monotonic clock.
 */
export class Lateness {
  #since = Number.NEGATIVE_INFINITY
  /** ms, since then. */
  #longest = 0
  /** ms, in the span of time before. */
  #longestBefore = 0

  /** A job was found that was due so many µs before the cursor. */
  note(micros: number, now: number): void {
    this.#turn(now)
    this.#longest = Math.max(this.#longest, micros / 1000)
  }

  /** µs before the cursor where a look starts. */
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
