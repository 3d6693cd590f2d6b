import { uniformInt } from 'pure-rand/distribution/uniformInt'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'

/** What is left to chance, the same again for the same seed. */
export class Chance {
  readonly #generator: ReturnType<typeof xoroshiro128plus>

  constructor(seed: number) {
    this.#generator = xoroshiro128plus(seed)
  }

  /** Both ends are possible. */
  int(from: number, to: number): number {
    return uniformInt(this.#generator, from, to)
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error('nothing to pick from')
    return items[this.int(0, items.length - 1)]!
  }

  /** Each by its weight. */
  weigh<T extends { readonly weight: number }>(items: readonly T[]): T {
    const total = items.reduce((sum, { weight }) => sum + weight, 0)
    let place = this.int(1, total)
    return items.find(({ weight }) => {
      place -= weight
      return place <= 0
    })!
  }
}
