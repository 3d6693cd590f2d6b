import type { StoreEnvironment } from '../support/store-environment.ts'
import type { Decision } from './schedules.ts'
import { Keeper, Stepper, type Work } from './stepper.ts'

/** ms until we ask the server about a session that has not stopped. Most steps take less. */
const PATIENCE = 2

/** What a session does in a transaction. */
export interface Part {
  readonly work: Work
  /** Default `COMMIT`. */
  readonly end?: string
}

export interface Way {
  readonly decisions: Decision[]
  /** Each step as `A1 claim`, and the session that had to wait after it. */
  readonly steps: string[]
  readonly answers: string[]
}

/** Sessions that take steps one at a time. */
export class Crew {
  readonly #steppers: readonly Stepper[]
  readonly #env: StoreEnvironment

  private constructor(env: StoreEnvironment, steppers: readonly Stepper[]) {
    this.#env = env
    this.#steppers = steppers
  }

  static async open(env: StoreEnvironment, size: number): Promise<Crew> {
    const keeper = new Keeper(await env.session())
    const steppers: Stepper[] = []
    for (const name of ['A', 'B', 'C'].slice(0, size)) steppers.push(await Stepper.open(env, name, keeper))
    return new Crew(env, steppers)
  }

  /**
   * Takes the steps in the order of `beginning`. After that, each session goes on until it has ended or waits for
   * another.
   */
  async play(parts: readonly Part[], beginning: readonly number[]): Promise<Way> {
    const cast = this.#steppers.slice(0, parts.length)
    await Promise.all(cast.map((stepper, i) => stepper.begin(parts[i]!.work, parts[i]!.end)))
    const decisions: Decision[] = []
    const steps: string[] = []
    while (cast.some(({ ended }) => !ended)) {
      const able = cast.flatMap((stepper, i) => (stepper.next === undefined ? [] : [i]))
      if (able.length === 0) {
        steps.push('each waits for another')
        await Promise.race(cast.filter(({ ended }) => !ended).map((stepper) => stepper.moved()))
        continue
      }
      const last = decisions.at(-1)?.taken
      const before = last === undefined || cast[last]!.between ? undefined : last
      const taken = beginning[decisions.length] ?? (able.includes(before!) ? before! : able[0]!)
      if (!able.includes(taken)) throw new Error(`not as it went before: ${steps.join(', ')}`)
      decisions.push({ able, taken, before })
      steps.push(...(await this.#step(cast, cast[taken]!)))
    }
    return { decisions, steps, answers: cast.map(({ answer }) => answer) }
  }

  /** Only a session that ends a transaction lets others go on. */
  async #step(cast: readonly Stepper[], stepper: Stepper): Promise<string[]> {
    const told = stepper.step()
    await this.#untilStill([stepper])
    if (stepper.ended || stepper.between) await this.#untilStill(cast)
    return stepper.still ? [told] : [told, `${stepper.name} waits`]
  }

  /** Waits until each session has stopped, or waits for one that has. */
  async #untilStill(some: readonly Stepper[]): Promise<void> {
    for (;;) {
      const moving = some.filter(({ still }) => !still)
      if (moving.length === 0) return
      const all = Promise.all(moving.map((stepper) => stepper.moved())).then(() => true)
      if (await Promise.race([all, pause()])) return
      if (await this.#wait(moving.map(({ pid }) => pid))) return
    }
  }

  async #wait(pids: readonly number[]): Promise<boolean> {
    const [row] = await this.#env.query<{ waiting: number }>('SELECT lockstep.waiting($1)', [pids])
    return row!.waiting === pids.length
  }
}

function pause(): Promise<false> {
  return new Promise((resolve) => setTimeout(resolve, PATIENCE, false))
}
