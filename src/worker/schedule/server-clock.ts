/**
 * The database's clock, advanced by this process's monotonic one. So workers whose own clocks are hours off agree on what
 * is due.
 */
export class ServerClock {
  /** Server microseconds minus ours; the faster the round trip that set it, the closer it is. */
  #offset = 0

  set(serverMicros: number, askedAt: number, answeredAt: number): void {
    this.#offset = serverMicros - ((askedAt + answeredAt) / 2) * 1000
  }

  /** Microseconds since 1970. */
  now(): number {
    return performance.now() * 1000 + this.#offset
  }
}
