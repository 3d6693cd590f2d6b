/** More does not fit into a timer, which would go off at once. */
export const LONGEST_WAIT = 2 ** 31 - 1

/** Wakes everybody who waits for the next ring, or their time has come. */
export class Bell {
  readonly #waiting = new Set<() => void>()

  ring(): void {
    if (this.#waiting.size === 0) return
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }

  /** Resolves at the next ring, or after `timeout` ms; after 24 days at the latest where one is given. */
  wait(timeout?: number): Promise<void> {
    return new Promise((resolve) => {
      const pause = Math.min(Math.max(0, timeout ?? 0), LONGEST_WAIT)
      const timer = timeout === undefined ? undefined : setTimeout(() => wake(), pause)
      const wake = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      this.#waiting.add(wake)
    })
  }
}
