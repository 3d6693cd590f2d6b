import { describeError } from './errors.ts'
import type { Instrumentation, Moments, SpanEnd, Spans } from './instrumentation.ts'
import type { Logger } from './logger.ts'
import { ignoreRejection } from './promises.ts'

type Kind = keyof Spans | keyof Moments
type OnEnd<K extends keyof Spans> = (end: SpanEnd<Spans[K][1]>) => void

/** All that hear of operations. */
export class Instruments {
  readonly #all: readonly Instrumentation[]
  readonly #logger: Logger
  /** Kinds of which one has thrown: it may do so each time, and the log has the first. */
  readonly #failing = new Set<Kind>()

  constructor(all: readonly Instrumentation[], logger: Logger) {
    this.#all = all
    this.#logger = logger
  }

  /** Whether any of them hears of it: else nobody need gather what it is told. */
  hears(kind: Kind): boolean {
    return this.#all.some((one) => one[kind] !== undefined)
  }

  tell<K extends keyof Moments>(kind: K, moment: Moments[K]): void {
    for (const one of this.#all) {
      const hear = one[kind] as ((moment: Moments[K]) => void) | undefined
      if (hear) this.#safely(kind, () => hear.call(one, moment))
    }
  }

  /** Does `work`, and tells of its beginning, and at its end what `result` says of what was done. */
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
      ignoreRejection(result)
      return result
    } catch (error) {
      if (!this.#failing.has(kind))
        this.#logger.error({ instrumentation: kind, error: describeError(error) }, 'instrumentation failed')
      this.#failing.add(kind)
      return undefined
    }
  }
}
