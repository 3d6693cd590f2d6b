/**
 * By how much two clocks may come apart, in µs per ms: twice what NTP corrects a clock by. If they come apart faster, what was
 * known will be contradicted, and dropped.
 */
const DRIFT = 1
/** µs in which a call may arrive, where answers were too slow to tell. */
const QUICK_ARRIVAL = 200

/**
 * The database's clock, advanced by this process's monotonic one. So workers whose own clocks are hours off agree on what
 * is due. It is ahead by as much as the quickest call took to arrive: a claim that is asked for when a job is due, by this
 * clock, arrives when it is due by the server's.
 */
export class ServerClock {
  /** Server microseconds minus ours: what is known of it, as of a moment of ours in ms. */
  #known = { lowest: Number.NEGATIVE_INFINITY, highest: Number.POSITIVE_INFINITY, at: 0 }
  #offset = 0

  /**
   * A statement that was asked and answered at these times of ours, in ms, has begun and ended at these times of the
   * server's, in microseconds. A slow login or answer leaves much room in between: so all that earlier statements have shown
   * counts, too, unless the server's clock has been set since.
   */
  compare({ began, ended }: { began: number; ended: number }, askedAt: number, answeredAt: number): void {
    const drift = (answeredAt - this.#known.at) * DRIFT
    const [lowest, highest] = [ended - answeredAt * 1000, began - askedAt * 1000]
    const both = {
      lowest: Math.max(lowest, this.#known.lowest - drift),
      highest: Math.min(highest, this.#known.highest + drift),
    }
    this.#known = { ...(both.lowest <= both.highest ? both : { lowest, highest }), at: answeredAt }
    const middle = (this.#known.lowest + this.#known.highest) / 2
    this.#offset = Math.min(this.#known.highest, middle + QUICK_ARRIVAL)
  }

  /** Microseconds since 1970. */
  now(): number {
    return performance.now() * 1000 + this.#offset
  }
}
