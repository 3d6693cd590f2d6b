import fc from 'fast-check'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

interface Push {
  readonly id: string
  readonly payload: string
  readonly score: number
}

type Step = { readonly kind: 'begin' | 'commit' | 'roll back' | 'round' } | { readonly jobs: Push[] }

const push: fc.Arbitrary<Push> = fc.record({
  id: fc.constantFrom('a', 'b'),
  payload: fc.constantFrom('v', 'w', 'x'),
  score: fc.integer({ min: 0, max: 2 }),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('begin', 'commit', 'roll back', 'round', 'round'),
  }) as fc.Arbitrary<Step>,
  fc.record({ jobs: fc.array(push, { minLength: 1, maxLength: 3 }) }),
)

/** A producer whose transaction has a snapshot, while rounds begin and end, and what came of both. */
class Course {
  readonly #testQueue: TestQueue
  readonly #claimer: Claimer
  readonly #level: string
  #tx: pg.Client | undefined
  #uncommitted: Push[] = []
  /** Committed, and not handed over since; as `id payload`. */
  readonly #waiting = new Set<string>()

  constructor(testQueue: TestQueue, claimer: Claimer, level: string) {
    this.#testQueue = testQueue
    this.#claimer = claimer
    this.#level = level
  }

  async take(step: Step): Promise<void> {
    if ('jobs' in step) await this.#push(step.jobs)
    else if (step.kind === 'round') await this.#perform()
    else if (step.kind === 'begin') await this.#begin()
    else await this.#end(step.kind === 'commit')
  }

  /** Performs everything that is left. */
  async finish(): Promise<void> {
    await this.#end(true)
    while (await this.#perform());
    expect([...this.#waiting]).toEqual([])
    expect(await env.query('SELECT FROM lockstep.jobs')).toEqual([])
    expect(await env.query('SELECT FROM lockstep.payloads')).toEqual([])
  }

  async #begin(): Promise<void> {
    if (this.#tx) return
    this.#tx = await env.transaction(`BEGIN ISOLATION LEVEL ${this.#level}`)
    await this.#tx.query('SELECT FROM lockstep.jobs')
  }

  async #push(jobs: Push[]): Promise<void> {
    if (!this.#tx) {
      await this.#testQueue.push(...jobs)
      for (const { id, payload } of jobs) this.#waiting.add(`${id} ${payload}`)
      return
    }
    try {
      await this.#testQueue.pushIn(this.#tx, ...jobs)
      this.#uncommitted.push(...jobs)
    } catch (error) {
      expect(error).toMatchObject({ code: 'LOCKSTEP_CONFLICT' })
      await this.#end(false)
    }
  }

  async #end(commits: boolean): Promise<void> {
    if (!this.#tx) return
    await this.#tx.query(commits ? 'COMMIT' : 'ROLLBACK')
    await this.#tx.end()
    if (commits) for (const { id, payload } of this.#uncommitted) this.#waiting.add(`${id} ${payload}`)
    this.#tx = undefined
    this.#uncommitted = []
  }

  /** Whether there was one. */
  async #perform(): Promise<boolean> {
    const [round] = (await this.#claimer.claim({ batchSize: 1 })).rounds
    if (!round) return false
    // Each was pushed since it was last handed over.
    for (const payload of round.payloads) expect(this.#waiting.delete(`${round.id} ${payload}`)).toBe(true)
    for (const waiting of this.#waiting) expect(waiting).not.toMatch(new RegExp(`^${round.id} `))
    expect(await this.#claimer.complete(round)).toEqual([])
    return true
  }
}

describe.each(['REPEATABLE READ', 'SERIALIZABLE'])('P3 P5 a producer at %s, with a snapshot', (level) => {
  test('has each payload handed over once, whatever was performed since', {
    tags: 'slow',
    timeout: 600_000,
  }, async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const courses = fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 24 }), async (steps) => {
      const course = new Course(testQueue, claimer, level)
      try {
        for (const one of steps) await course.take(one)
        await course.finish()
      } finally {
        await env.endSessions()
        await env.query('DELETE FROM lockstep.jobs; DELETE FROM lockstep.payloads')
      }
    })
    await fc.assert(courses, { numRuns: Number(process.env.LOCKSTEP_MODEL_RUNS ?? 100) })
  })
})
