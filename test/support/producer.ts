import type { Queue } from '../../src/index.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

const PRODUCERS = 2
const PAUSE = 20

/**
 * Pushes ascending numbers to each id until told to end. It pushes from several sides at once, but never from two to
 * one id. It does not use the Lockstep object of the environment, because tests break that one's connections.
 */
export class Producer {
  /** What was pushed, by id. */
  readonly pushed = new Map<string, number[]>()
  readonly #producing: Promise<unknown>
  #ending = false

  constructor(env: WorkerEnvironment, queue: Queue, ids: number, from = 1) {
    const all = Array.from({ length: ids }, (_, index) => `id-${index}`)
    const sides = Array.from({ length: PRODUCERS }, (_, side) => all.filter((_, i) => i % PRODUCERS === side))
    this.#producing = Promise.all(sides.map((mine) => this.#produce(env, queue, mine, from)))
    env.later(() => this.end())
  }

  async end(): Promise<void> {
    this.#ending = true
    await this.#producing
  }

  async #produce(env: WorkerEnvironment, queue: Queue, ids: readonly string[], from: number): Promise<void> {
    for (let number = from; !this.#ending; number += 1) {
      const some = ids.filter(() => Math.random() < 0.3)
      await push(env, queue, some, number)
      for (const id of some) this.pushed.set(id, [...(this.pushed.get(id) ?? []), number])
      await new Promise((resolve) => setTimeout(resolve, PAUSE))
    }
  }
}

async function push(
  env: WorkerEnvironment,
  queue: Queue,
  ids: readonly string[],
  number: number,
): Promise<void> {
  try {
    await env.sql(
      `SELECT lockstep.enqueue_many($1, $2, array_fill($3::jsonb, ARRAY[$5::int]), array_fill($4::float8, ARRAY[$5::int]),
         array_fill(NULL::timestamptz, ARRAY[$5::int]), array_fill(0::smallint, ARRAY[$5::int])) WHERE $5 > 0`,
      [queue.name, ids, number, number, ids.length],
    )
  } catch (error) {
    // The price of REPEATABLE READ, if a test uses it: nothing was stored.
    if ((error as { code?: string }).code !== '40001') throw error
    await push(env, queue, ids, number)
  }
}
