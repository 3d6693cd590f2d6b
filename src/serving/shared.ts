/** When something was read, and what. */
export interface Aged<T> {
  readonly at: Date
  readonly value: T
}

/**
 * So that reading costs the database at most one per cent of a core: while it counts a large table, the server takes about two
 * processes' time.
 */
const FACTOR = 200
/** ms */
const LEAST = 1_000
/** A wait for a connection or a lock must not count as a cost for hours. */
const MOST = 600_000

/** Something that is expensive to read, shared by all who ask: kept for two hundred times as long as it took. */
export class Shared<T> {
  readonly #read: () => Promise<T>
  readonly #costOf: ((value: T) => number) | undefined
  #last: { readonly aged: Aged<T>; readonly until: number } | undefined
  #reading: Promise<Aged<T>> | undefined
  #changes = 0

  /** `costOf`: the ms that the database itself spent on it. Default: the time that reading took, with all waits. */
  constructor(read: () => Promise<T>, costOf?: (value: T) => number) {
    this.#read = read
    this.#costOf = costOf
  }

  get(): Promise<Aged<T>> {
    if (this.#last && performance.now() < this.#last.until) return Promise.resolve(this.#last.aged)
    if (this.#reading) return this.#reading
    const reading = this.#begin().finally(() => {
      if (this.#reading === reading) this.#reading = undefined
    })
    this.#reading = reading
    return reading
  }

  /** Somebody has changed it: who asks from now on gets what is read from now on. */
  forget(): void {
    this.#changes += 1
    this.#last = undefined
    this.#reading = undefined
  }

  async #begin(): Promise<Aged<T>> {
    const [at, began, changes] = [new Date(), performance.now(), this.#changes]
    const value = await this.#read()
    const ended = performance.now()
    const cost = this.#costOf?.(value) ?? ended - began
    const kept = Math.min(Math.max(cost * FACTOR, LEAST), MOST)
    const aged = { at, value }
    if (this.#changes === changes) this.#last = { aged, until: ended + kept }
    return aged
  }
}

/** A queue that was deleted is forgotten once so many others were looked at. */
const MAX_QUEUES = 1_000

/** The same of each queue. */
export class SharedByQueue<T> {
  readonly #read: (queue: string) => Promise<T>
  readonly #costOf: ((value: T) => number) | undefined
  readonly #queues = new Map<string, Shared<T>>()

  constructor(read: (queue: string) => Promise<T>, costOf?: (value: T) => number) {
    this.#read = read
    this.#costOf = costOf
  }

  get(queue: string): Promise<Aged<T>> {
    let shared = this.#queues.get(queue)
    if (!shared) {
      shared = new Shared(() => this.#read(queue), this.#costOf)
      if (this.#queues.size >= MAX_QUEUES) this.#queues.delete(this.#queues.keys().next().value!)
      this.#queues.set(queue, shared)
    }
    return shared.get()
  }

  /** Of all queues, or of one. */
  forget(queue?: string): void {
    if (queue !== undefined) this.#queues.get(queue)?.forget()
    else for (const shared of this.#queues.values()) shared.forget()
  }
}
