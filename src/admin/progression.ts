/** The progress of long work, in jobs or payloads of the morgue. */
export interface Progress {
  /** 0 before the first chunk. */
  readonly done: number
  /** Counted at the start, and raised if more is done. */
  readonly total: number
}

/**
 * Work in chunks. `for await` yields the progress, first with nothing done yet and then after each chunk; `await` runs
 * to the end and returns the last progress. The work starts when it is first consumed, and runs only once. Leaving the
 * loop stops it after the chunk under way; what has been done stays done.
 */
export class Progression implements AsyncIterable<Progress>, PromiseLike<Progress> {
  readonly #steps: AsyncGenerator<Progress, void>
  #last: Progress = { done: 0, total: 0 }
  #failure: { error: unknown } | undefined
  #end: Promise<Progress> | undefined

  constructor(steps: AsyncGenerator<Progress, void>) {
    this.#steps = steps
  }

  [Symbol.asyncIterator](): AsyncIterator<Progress, void> {
    return {
      next: () => this.#next(),
      return: async () => {
        await this.#steps.return()
        return { done: true, value: undefined }
      },
    }
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting it is what it is for
  then<Result = Progress, Failure = never>(
    onEnd?: ((last: Progress) => Result | PromiseLike<Result>) | null,
    onFailure?: ((reason: unknown) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Result | Failure> {
    this.#end ??= this.#runToEnd()
    return this.#end.then(onEnd, onFailure)
  }

  /** As a promise's: runs to the end. */
  catch<Failure = never>(
    // biome-ignore lint/suspicious/noExplicitAny: as promises have it, so that a callback may name the class it expects
    onFailure?: ((reason: any) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Progress | Failure> {
    return this.then(undefined, onFailure)
  }

  /** As a promise's: runs to the end. */
  finally(onEnd?: (() => void) | null): Promise<Progress> {
    return this.then().finally(onEnd)
  }

  async #runToEnd(): Promise<Progress> {
    while (!(await this.#next()).done);
    return this.#last
  }

  /** A failed generator looks as if it had ended, so this rethrows the error to every later consumer. */
  async #next(): Promise<IteratorResult<Progress, void>> {
    if (this.#failure) throw this.#failure.error
    try {
      const step = await this.#steps.next()
      if (!step.done) this.#last = step.value
      return step
    } catch (error) {
      this.#failure = { error }
      throw error
    }
  }
}
