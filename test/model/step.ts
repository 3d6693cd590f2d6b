import fc from 'fast-check'
import type { World } from './world.ts'

/** One call on both sides, or several that no other call comes between. */
class Step implements fc.AsyncCommand<World, World> {
  readonly #told: string
  readonly #possible: (world: World) => boolean
  readonly #act: (world: World) => Promise<void>

  constructor(told: string, possible: (world: World) => boolean, act: (world: World) => Promise<void>) {
    this.#told = told
    this.#possible = possible
    this.#act = act
  }

  check(world: Readonly<World>): boolean {
    return this.#possible(world as World)
  }

  async run(world: World): Promise<void> {
    await this.#act(world)
    await world.compare()
  }

  toString(): string {
    return this.#told
  }
}

type Make<T> = (value: T) => { possible?: (world: World) => boolean; act: (world: World) => Promise<void> }

export function step<T>(name: string, values: fc.Arbitrary<T>, make: Make<T>): fc.Arbitrary<Step> {
  return values.map((value) => {
    const { possible = () => true, act } = make(value)
    return new Step(`${name} ${JSON.stringify(value)}`, possible, act)
  })
}

export const small = fc.nat({ max: 3 })
export const places = fc.nat({ max: 7 })
