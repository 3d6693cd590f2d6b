/** For callbacks that should not return a promise: an unhandled rejection would end the process. */
export function ignoreRejection(value: unknown): void {
  if (value instanceof Promise) value.catch(() => {})
}

/** Whether a promise settles within `ms`, and before `signal` is aborted. */
export async function settlesWithin(
  promise: Promise<unknown>,
  ms: number,
  signal?: AbortSignal,
): Promise<boolean> {
  if (signal?.aborted) return false
  let giveUp!: () => void
  const givenUp = new Promise<false>((resolve) => {
    giveUp = () => resolve(false)
  })
  const timer = setTimeout(giveUp, ms)
  signal?.addEventListener('abort', giveUp)
  const settled = promise.then(
    () => true,
    () => true,
  )
  try {
    return await Promise.race([settled, givenUp])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', giveUp)
  }
}

/** Knows whether anyone has awaited it. */
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

  /** Keeps a rejection from counting as unhandled: `outlast` reports it. */
  hush(): void {
    super.then(undefined, () => {})
  }
}

/** Tracks calls that have not ended. */
export class UnderWay {
  readonly #calls = new Set<Promise<unknown>>()
  readonly #failed: { readonly offered: Offered<unknown>; readonly error: unknown }[] = []
  #over = false

  /** `outlast` has ended, so any call that begins now is late. */
  get over(): boolean {
    return this.#over
  }

  /** Returns a separate promise, so that Node still reports a rejection that the caller does not handle. */
  watch<T>(call: Promise<T>): Promise<T> {
    const ended = () => this.#calls.delete(call)
    this.#calls.add(call)
    call.then(ended, ended)
    return call.then((result) => result)
  }

  /** Like `watch`, for callers that may not await the call: `outlast` then throws its error, unless that has ended. */
  offer<T>(call: Promise<T>): Promise<T> {
    if (this.#over) return this.watch(call)
    const offered = new Offered<T>((resolve) => resolve(this.watch(call)))
    offered.hush()
    call.catch((error) => this.#failed.push({ offered, error }))
    return offered
  }

  /**
   * Ends when the call and all calls under way have ended, even those that no one awaits. Throws the error of the call, or
   * else of one under way, or of one that was offered and never awaited.
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

  /** Resolves when no call is left, with the results of those that were under way. */
  async ended(): Promise<PromiseSettledResult<unknown>[]> {
    const results: PromiseSettledResult<unknown>[] = []
    while (this.#calls.size > 0) results.push(...(await Promise.allSettled(this.#calls)))
    return results
  }
}
