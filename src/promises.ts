/** For what a callback returned where no promise is expected: a rejection that nobody hears ends the process. */
export function ignoreRejection(value: unknown): void {
  if (value instanceof Promise) value.catch(() => {})
}

/** Knows whether anybody waits for it. */
class Offered<T> extends Promise<T> {
  heeded = false

  static override get [Symbol.species]() {
    return Promise
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one
  override then<A, B>(
    onResolved?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.heeded = true
    return super.then(onResolved, onRejected)
  }

  /** A rejection that nobody hears is somebody else's to tell. */
  hush(): void {
    super.then(undefined, () => {})
  }
}

/** Calls that have not ended. */
export class UnderWay {
  readonly #calls = new Set<Promise<unknown>>()
  readonly #failed: { readonly offered: Offered<unknown>; readonly error: unknown }[] = []
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

  /** The same for who may not await it: what fails unheard, `outlast` tells, unless that has ended. */
  offer<T>(call: Promise<T>): Promise<T> {
    if (this.#over) return this.watch(call)
    const offered = new Offered<T>((resolve) => resolve(this.watch(call)))
    offered.hush()
    call.catch((error) => this.#failed.push({ offered, error }))
    return offered
  }

  /**
   * Ends when the call and all that is under way have, even where nobody awaits it; fails as the call does, or else as one of
   * those, or as one that was offered and never awaited.
   */
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
    const unheard = this.#failed.find(({ offered }) => !offered.heeded)
    if (unheard) throw unheard.error
  }

  /** Resolves when none is left, to how those ended that were under way. */
  async ended(): Promise<PromiseSettledResult<unknown>[]> {
    const results: PromiseSettledResult<unknown>[] = []
    while (this.#calls.size > 0) results.push(...(await Promise.allSettled(this.#calls)))
    return results
  }
}
