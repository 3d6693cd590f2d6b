/** Most calls under way at once. */
const CALLS = 2

interface Waiting<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
}

/** Sends what is handed in while calls are under way with the next one: in one round trip and one commit. */
export class Gathered<Item, Result> {
  readonly #send: (items: readonly Item[]) => Promise<readonly Result[]>
  readonly #most: number
  readonly #keyOf: ((item: Item) => string) | undefined
  readonly #isOnesOwn: (error: unknown) => boolean
  #waiting: Waiting<Item, Result>[] = []
  #calls = 0
  #isSending = false

  /**
   * `send` resolves to a result for each item. `most`: items for one call. `keyOf`: of two items with one key, the second goes with
   * a later call. `isOnesOwn`: whether one item is to blame for an error, and the call did nothing; then its halves go apart, so
   * that the others are spared for few calls more.
   */
  constructor(
    send: (items: readonly Item[]) => Promise<readonly Result[]>,
    most: number,
    keyOf?: (item: Item) => string,
    isOnesOwn: (error: unknown) => boolean = () => false,
  ) {
    this.#send = send
    this.#most = most
    this.#keyOf = keyOf
    this.#isOnesOwn = isOnesOwn
  }

  /** Rejects if the call fails that it went with, unless another item is to blame. */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#sendSoon()
    })
  }

  /** With everything else that is handed in during this turn of the event loop. */
  #sendSoon(): void {
    if (this.#isSending || this.#calls >= CALLS || this.#waiting.length === 0) return
    this.#isSending = true
    setImmediate(() => {
      this.#isSending = false
      void this.#call(this.#take())
      this.#sendSoon()
    })
  }

  #take(): Waiting<Item, Result>[] {
    const next = this.#waiting.splice(0, this.#most)
    if (!this.#keyOf) return next
    const keys = new Set<string>()
    const again: Waiting<Item, Result>[] = []
    const taken = next.filter((one) => {
      const key = this.#keyOf!(one.item)
      if (keys.has(key)) again.push(one)
      else keys.add(key)
      return again.at(-1) !== one
    })
    this.#waiting = [...again, ...this.#waiting]
    return taken
  }

  async #call(sent: readonly Waiting<Item, Result>[]): Promise<void> {
    this.#calls += 1
    await this.#sendAll(sent)
    this.#calls -= 1
    this.#sendSoon()
  }

  async #sendAll(sent: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#send(sent.map(({ item }) => item))
      for (const [index, { resolve }] of sent.entries()) resolve(results[index]!)
    } catch (error) {
      if (sent.length > 1 && this.#isOnesOwn(error)) await this.#sendHalves(sent)
      else for (const { reject } of sent) reject(error)
    }
  }

  async #sendHalves(sent: readonly Waiting<Item, Result>[]): Promise<void> {
    const half = sent.length >> 1
    await this.#sendAll(sent.slice(0, half))
    await this.#sendAll(sent.slice(half))
  }
}
