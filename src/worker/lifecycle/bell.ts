/** ms. A timer can't hold more, and would go off at once. */
export const LONGEST_WAIT = 2 ** 31 - 1

/** Wakes all that wait for the next ring, or each when its time is up. */
export class Bell {
  readonly #waiting = new Set<() => void>()

  ring(): void {
    if (this.#waiting.size === 0) return
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }

  /** Resolves at the next ring, or after `timeout` ms if that is given, but at most 24 days. */
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
