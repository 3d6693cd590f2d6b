/** Wakes everybody who waits for the next ring, or their time has come. */
export class Bell {
  readonly #waiting = new Set<() => void>()

  ring(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }

  /** Resolves at the next ring, or after `timeout` ms. */
  wait(timeout?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = timeout === undefined ? undefined : setTimeout(() => wake(), Math.max(0, timeout))
      const wake = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      this.#waiting.add(wake)
    })
  }
}
