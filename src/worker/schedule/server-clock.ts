/**
 * The database's clock, followed by this process's monotonic one: workers whose own clocks are hours off agree
 * on what is due.
 */
export class ServerClock {
  /** Server microseconds minus ours; whoever set it on the fastest round trip was closest. */
  #offset = 0

  set(serverMicros: number, askedAt: number, answeredAt: number): void {
    this.#offset = serverMicros - ((askedAt + answeredAt) / 2) * 1000
  }

  /** Microseconds since 1970. */
  now(): number {
    return performance.now() * 1000 + this.#offset
  }
}
