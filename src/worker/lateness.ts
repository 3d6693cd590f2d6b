/** ms before the cursor where a look starts, at least: most transactions are shorter. */
const SHORTEST = 250
/** And at most: what comes even later is found by the regular full look. */
const LONGEST = 2_000
/** ms after which a lateness that has not come again no longer counts. */
const MEMORY = 10_000

/**
 * How much later jobs are committed than they were pushed. A cursor passes the time of a push whose transaction is still open;
 * so a look starts some way before it, and the further, the later jobs have been of late.
 */
export class Lateness {
  #longest = 0
  #notedAt = Number.NEGATIVE_INFINITY

  /** A job was found that was due so many µs before the cursor. `now`: ms of the monotonic clock. */
  note(micros: number, now: number): void {
    const ms = micros / 1000
    if (ms < this.#longest && now - this.#notedAt < MEMORY) return
    this.#longest = ms
    this.#notedAt = now
  }

  /** µs before the cursor where a look starts. */
  span(now: number): number {
    const longest = now - this.#notedAt < MEMORY ? this.#longest : 0
    return Math.min(Math.max(2 * longest, SHORTEST), LONGEST) * 1000
  }
}
