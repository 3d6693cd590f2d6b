/** For what a callback returned where no promise is expected: a rejection that nobody hears ends the process. */
export function ignoreRejection(value: unknown): void {
  if (value instanceof Promise) value.catch(() => {})
}

/** Calls that have not ended. */
export class UnderWay {
  readonly #calls = new Set<Promise<unknown>>()
  #over = false

  /** `outlast` has ended: what begins now is late. */
  get over(): boolean {
    return this.#over
  }

  /** Gives a promise of its own, so that a rejection nobody hears is reported as any other. */
  watch<T>(call: Promise<T>): Promise<T> {
    const ended = () => this.#calls.delete(call)
    this.#calls.add(call)
    call.then(ended, ended)
    return call.then((result) => result)
  }

  /** Ends when the call and all that is under way have, even where nobody awaits it; fails as the call does, or else as one of those. */
  async outlast(call: Promise<void>): Promise<void> {
    let late: readonly PromiseSettledResult<unknown>[] = []
    try {
      await call
    } finally {
      late = await this.ended()
      this.#over = true
    }
    const failed = late.find((result) => result.status === 'rejected')
    if (failed) throw failed.reason
  }

  /** Resolves when none is left, to how those ended that were under way. */
  async ended(): Promise<PromiseSettledResult<unknown>[]> {
    const results: PromiseSettledResult<unknown>[] = []
    while (this.#calls.size > 0) results.push(...(await Promise.allSettled(this.#calls)))
    return results
  }
}
