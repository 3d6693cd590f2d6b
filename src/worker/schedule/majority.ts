/** Votes that one name may be ahead by: after as many of others, it has the majority no more. */
const MOST_VOTES = 100

/** Which name most have of those that were added lately, if any has (Boyer and Moore's majority vote, 1981). */
export class Majority {
  #name: string | null = null
  #votes = 0

  add(name: string | null): void {
    if (name === this.#name) this.#votes = Math.min(this.#votes + 1, MOST_VOTES)
    else if (this.#votes > 0) this.#votes -= 1
    else [this.#name, this.#votes] = [name, 1]
  }

  get name(): string | null {
    return this.#votes > 0 ? this.#name : null
  }
}
