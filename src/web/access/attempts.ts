/** How many failed logins in a row an address may have, and ms until it gets one of them back. */
const BURST = 10
const PAUSE = 5_000
const MAX_ADDRESSES = 10_000

/** Limits failed logins by address. */
export class Attempts {
  /** When the address will have all its attempts again, in ms of the monotonic clock. The last to fail is the last here. */
  readonly #free = new Map<string, number>()

  /** ms until this address may try again; 0 if it may now. */
  wait(address: string, now = performance.now()): number {
    const free = this.#free.get(address) ?? now
    return Math.max(0, free - now - (BURST - 1) * PAUSE)
  }

  fail(address: string, now = performance.now()): void {
    const free = Math.max(now, this.#free.get(address) ?? now) + PAUSE
    this.#free.delete(address)
    this.#free.set(address, free)
    if (this.#free.size <= MAX_ADDRESSES) return
    const [oldest] = this.#free.keys()
    this.#free.delete(oldest!)
  }
}

/** An IPv6 network counts as one: whoever has an address has all of its network. */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped) return mapped[1]!
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('%')[0]!.split('::') as [string?, string?]
  const before = head === '' ? [] : head.split(':')
  const after = tail ? tail.split(':') : []
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length
  return [...before, ...Array.from({ length: zeros }, () => '0'), ...after].slice(0, 4).join(':')
}
