import { uniformInt } from 'pure-rand/distribution/uniformInt'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'

/** Random choices, repeatable by their seed. */
export class Chance {
  readonly #generator: ReturnType<typeof xoroshiro128plus>

  constructor(seed: number) {
    this.#generator = xoroshiro128plus(seed)
  }

  /** Includes both ends. */
  int(from: number, to: number): number {
    return uniformInt(this.#generator, from, to)
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error('nothing to pick from')
    return items[this.int(0, items.length - 1)]!
  }

  /** Draws one item by weight. */
  weigh<T extends { readonly weight: number }>(items: readonly T[]): T {
    const total = items.reduce((sum, { weight }) => sum + weight, 0)
    let place = this.int(1, total)
    return items.find(({ weight }) => {
      place -= weight
      return place <= 0
    })!
  }
}
