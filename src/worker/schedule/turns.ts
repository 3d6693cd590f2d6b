/** Most that a key keeps of its turns, in the price of a turn. */
const MOST_KEPT = 1_000

/** Where one key stands, in virtual time, and what it has been charged for picks that have not been settled. */
interface Account {
  finish: number
  picks: number
  charged: number
}

/**
 * Start-time fair queueing (Goyal, Vin and Cheng, 1996). A key that is picked pays with virtual time, and the key that has
 * paid least is next. The clock shows when the first of those that are due begins. So a key that had nothing due meanwhile
 * comes soon, but has saved nothing up; one that was due, and could not be picked, keeps its turns, up to a limit: the server
 * may answer a claim after seconds.
 *
 * What a pick costs is known only when its jobs have been taken. Other picks come before that, so one job is charged at
 * once, and the rest when the pick is settled.
 *
 * If prices are drawn at random, by an exponential distribution whose rate is the weight of the key, and so is the wait of a
 * key that comes anew (`entry`), then each pick is a draw by weight among those that are due, independent of what was before:
 * what is left of an exponential wait is distributed like a whole one. And what comes next if the first is left out is a
 * draw among the rest.
 */
export class Turns<Key> {
  readonly #accounts = new Map<Key, Account>()
  readonly #entry: (key: Key) => number
  readonly #credit: number
  #now = 0

  /** `credit`: what a key that comes may take before the others' next turns, in the price of a turn, however long it was away. */
  constructor({ entry = () => 0, credit = 0 }: { entry?: (key: Key) => number; credit?: number } = {}) {
    this.#entry = entry
    this.#credit = credit
  }

  /**
   * Picks the one whose key is next, the first of several. `leadOf`: by how much a candidate may have paid more than the one
   * that is next, and be picked before it.
   */
  next<C>(
    candidates: readonly C[],
    others: readonly C[],
    keyOf: (candidate: C) => Key,
    leadOf: (candidate: C) => number = () => 0,
  ): C | undefined {
    const startOf = (candidate: C) => this.#accountOf(keyOf(candidate)).finish
    const [next] = leastOf(candidates, (candidate) => startOf(candidate) - leadOf(candidate))
    if (next === undefined) return undefined
    const [, start] = leastOf(candidates, startOf)
    const [, otherStart] = leastOf(others, startOf)
    // Keys with credit begin before the clock.
    this.#now = Math.max(this.#now, Math.min(start, otherStart), startOf(next) - MOST_KEPT)
    return next
  }

  /** The key was picked: it pays for one job. */
  charge(key: Key, price: number): void {
    const account = this.#accountOf(key)
    account.finish += price
    account.charged += price
    account.picks += 1
  }

  /** A pick of the key has taken what it takes. `cost`: what that costs, given what the pick was charged. */
  settle(key: Key, cost: (charged: number) => number): void {
    const account = this.#accounts.get(key)
    if (!account || account.picks === 0) return
    const charged = account.charged / account.picks
    account.finish += cost(charged) - charged
    account.charged -= charged
    account.picks -= 1
  }

  /** One that was away when its turn came begins now. */
  #accountOf(key: Key): Account {
    const account = this.#accounts.get(key) ?? { finish: Number.NEGATIVE_INFINITY, picks: 0, charged: 0 }
    const earliest = this.#now - this.#credit
    if (account.finish >= earliest) return account
    account.finish = earliest + this.#entry(key)
    this.#accounts.set(key, account)
    return account
  }
}

/** The first of several, and its measure. */
function leastOf<C>(all: readonly C[], measure: (one: C) => number): [C | undefined, number] {
  let [found, least]: [C | undefined, number] = [undefined, Number.POSITIVE_INFINITY]
  for (const one of all) {
    const measured = measure(one)
    if (measured >= least) continue
    found = one
    least = measured
  }
  return [found, least]
}
