import { describeError } from './errors.ts'
import type { Instrumentation, Kind, Moments, SpanEnd, SpanObserver, Spans } from './instrumentation.ts'
import type { Logger } from './logger.ts'
import { isStorable } from './options.ts'
import { ignoreRejection } from './promises.ts'

type Given<K extends keyof Spans> = SpanObserver<Spans[K][1]>

/** What an instrument has given. */
interface Observer<K extends keyof Spans> {
  readonly within: Given<K>['within'] | undefined
  readonly end: Given<K>['end'] | undefined
}

/** Calls all instruments. */
export class Instruments {
  readonly all: readonly Instrumentation[]
  readonly #logger: Logger
  /** Kinds for which an instrument has thrown. Only the first time is logged, since it may throw each time. */
  readonly #failing = new Set<Kind>()

  constructor(all: readonly Instrumentation[], logger: Logger) {
    this.all = all
    this.#logger = logger
  }

  /** Whether any instrument has a function for it. If not, callers needn't gather its fields. */
  hears(kind: Kind): boolean {
    return this.all.some((one) => one[kind] !== undefined)
  }

  tell<K extends keyof Moments>(kind: K, moment: Moments[K]): void {
    for (const one of this.all) {
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
    const observers = this.#begin(kind, begun)
    if (observers.length === 0) return work()
    const tell = (end: Spans[K][1] | { readonly error: unknown }) => {
      const told = { duration: performance.now() - startedAt, ...end } as SpanEnd<Spans[K][1]>
      for (const one of observers) this.#safely(kind, () => one.end?.(told))
    }
    return this.#within(kind, observers, work).then(
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

  /** What all instruments add to the headers of payloads; undefined if that is nothing. The first has precedence. */
  headers(): Readonly<Record<string, string>> | undefined {
    let all: Record<string, string> | undefined
    for (const one of this.all) {
      const own = one.headers && this.#safely('headers', () => checkedHeaders(one.headers!()))
      if (own) all = { ...own, ...all }
    }
    return all
  }

  #begin<K extends keyof Spans>(kind: K, begun: Spans[K][0]): Observer<K>[] {
    const observers: Observer<K>[] = []
    for (const one of this.all) {
      const hear = one[kind] as ((begun: Spans[K][0]) => Given<K> | Given<K>['end']) | undefined
      const returned = hear && this.#safely(kind, () => hear.call(one, begun))
      const observer = returned && this.#safely(kind, () => observerOf<K>(returned))
      if (observer) observers.push(observer)
    }
    return observers
  }

  /** Does `work` inside all contexts, the first outermost; once, and whatever instruments do. */
  #within<K extends keyof Spans, Done>(
    kind: K,
    observers: readonly Observer<K>[],
    work: () => Promise<Done>,
  ): Promise<Done> {
    if (observers.every(({ within }) => within === undefined)) return work()
    let doing: Promise<Done> | undefined
    const once = () => {
      doing ??= (async () => work())()
      return doing
    }
    const nested = observers.reduceRight<() => void>(
      // An async one returns a promise of its own, which fails with the work.
      (inner, one) => () =>
        this.#safely(kind, () => ignoreRejection(one.within ? one.within(inner) : inner())),
      once,
    )
    nested()
    return once()
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

/** Its functions are read only here, since that may throw. */
function observerOf<K extends keyof Spans>(returned: Given<K> | Given<K>['end']): Observer<K> | undefined {
  if (typeof returned === 'function') return { within: undefined, end: returned }
  if (typeof returned !== 'object') return undefined
  const { within, end } = returned
  return {
    within: within && ((work) => within.call(returned, work)),
    end: end && ((told) => end.call(returned, told)),
  }
}

function checkedHeaders(headers: unknown): Record<string, string> | undefined {
  if (headers instanceof Promise) {
    ignoreRejection(headers)
    throw new TypeError('headers must be there at once: its function can’t be async')
  }
  if (typeof headers !== 'object' || headers === null || Object.keys(headers).length === 0) return undefined
  for (const text of Object.entries(headers).flat())
    if (typeof text !== 'string' || !isStorable(text))
      throw new TypeError('headers must be an object of texts that Postgres can hold')
  return headers as Record<string, string>
}
