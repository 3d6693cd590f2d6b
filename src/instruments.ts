import { describeError } from './errors.ts'
import type { Instrumentation, Kind, Moments, SpanEnd, Spans } from './instrumentation.ts'
import type { Logger } from './logger.ts'

type OnEnd<K extends keyof Spans> = (end: SpanEnd<Spans[K][1]>) => void

/** Calls all instruments. */
export class Instruments {
  readonly #all: readonly Instrumentation[]
  readonly #logger: Logger
  /** Kinds for which an instrument has thrown. Only the first time is logged, since it may throw each time. */
  readonly #failing = new Set<Kind>()

  constructor(all: readonly Instrumentation[], logger: Logger) {
    this.#all = all
    this.#logger = logger
  }

  /** Whether any instrument has a function for it. If not, callers needn't gather its fields. */
  hears(kind: Kind): boolean {
    return this.#all.some((one) => one[kind] !== undefined)
  }

  tell<K extends keyof Moments>(kind: K, moment: Moments[K]): void {
    for (const one of this.#all) {
      const hear = one[kind] as ((moment: Moments[K]) => void) | undefined
      if (hear) this.#safely(kind, () => hear.call(one, moment))
    }
  }

  /** Does `work`; reports its beginning, and at its end the fields that `result` makes of the result. */
  watch<K extends keyof Spans, Done>(
    kind: K,
    begun: Spans[K][0],
    work: () => Promise<Done>,
    result: (done: Done) => Spans[K][1],
  ): Promise<Done> {
    const startedAt = performance.now()
    const ends = this.#begin(kind, begun)
    if (ends.length === 0) return work()
    const tell = (end: Spans[K][1] | { readonly error: unknown }) => {
      const told = { ...end, duration: performance.now() - startedAt } as SpanEnd<Spans[K][1]>
      for (const hear of ends) this.#safely(kind, () => hear(told))
    }
    return work().then(
      (done) => {
        tell(result(done))
        return done
      },
      (error) => {
        tell({ error })
        throw error
      },
    )
  }

  #begin<K extends keyof Spans>(kind: K, begun: Spans[K][0]): OnEnd<K>[] {
    const ends: OnEnd<K>[] = []
    for (const one of this.#all) {
      const hear = one[kind] as ((begun: Spans[K][0]) => OnEnd<K> | undefined) | undefined
      const end = hear && this.#safely(kind, () => hear.call(one, begun))
      if (typeof end === 'function') ends.push(end)
    }
    return ends
  }

  #safely<T>(kind: Kind, call: () => T): T | undefined {
    try {
      const result = call()
      // An instrument should return no promise, but an async one that rejects must neither end the process nor fail unseen.
      if (result instanceof Promise) result.catch((error) => this.#failed(kind, error))
      return result
    } catch (error) {
      this.#failed(kind, error)
      return undefined
    }
  }

  #failed(kind: Kind, error: unknown): void {
    if (!this.#failing.has(kind))
      this.#logger.error({ instrumentation: kind, error: describeError(error) }, 'instrumentation failed')
    this.#failing.add(kind)
  }
}
