import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import type { Round } from '../../src/store/claim.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { KnownJobs } from '../../src/worker/schedule/known-jobs.ts'
import { Trail } from '../../src/worker/schedule/trail.ts'
import { LaneDriver } from '../support/lane-driver.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const PAST = 1_536_323_288_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

const limit = ({ queueId }: TestQueue, value: Limits | undefined) =>
  replaceSetting(env.database, 'limits', [{ queueId, value }])

type Step =
  | { readonly kind: 'push'; readonly tenant: number; readonly at: number }
  | { readonly kind: 'claim' | 'complete' | 'release' | 'other'; readonly count: number }
  | { readonly kind: 'delete' | 'performNow'; readonly place: number }
  | { readonly kind: 'limit'; readonly concurrency: number }
  | { readonly kind: 'look' | 'pause' }

const count = fc.integer({ min: 1, max: 4 })
const place = fc.nat({ max: 30 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('push'), tenant: fc.nat({ max: 3 }), at: fc.nat({ max: 40 }) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('claim'), count }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('complete'), count }) },
  fc.record({ kind: fc.constantFrom('release', 'other'), count }),
  fc.record({ kind: fc.constantFrom('delete', 'performNow'), place }),
  fc.record({ kind: fc.constant('limit'), concurrency: fc.nat({ max: 3 }) }),
  fc.record({ kind: fc.constantFrom('look', 'pause') }),
) as fc.Arbitrary<Step>

/** A queue, what serves its lane, and what is in work. */
class Course {
  readonly #testQueue: TestQueue
  readonly #driver: LaneDriver
  readonly #inWork: Round[] = []
  #pushed = 0

  constructor(testQueue: TestQueue, driver: LaneDriver) {
    this.#testQueue = testQueue
    this.#driver = driver
  }

  async take(one: Step): Promise<void> {
    if (one.kind === 'push') await this.#push(one.tenant, one.at)
    else if (one.kind === 'claim') await this.#claim(one.count)
    else if (one.kind === 'complete') await this.#driver.complete(this.#inWork.splice(0, one.count))
    else if (one.kind === 'release') await this.#driver.release(this.#inWork.splice(0, one.count))
    else if (one.kind === 'other') await this.#performElsewhere(one.count)
    else if (one.kind === 'limit') await limit(this.#testQueue, limitsOf(one.concurrency))
    else if (one.kind === 'look') await this.#driver.look()
    else if (one.kind === 'delete' || one.kind === 'performNow') await this.#act(one.kind, `${one.place}`)
    else await this.#pause()
  }

  /** Whether all is done after some looks, each with claims until they bring nothing. */
  async drain(): Promise<number> {
    await limit(this.#testQueue, limitsOf(2))
    for (let looks = 0; looks < 6; looks += 1) {
      let brought = 1
      while (brought > 0) {
        await this.#driver.complete(this.#inWork.splice(0))
        brought = 0
        for (let claims = 0; claims < 8; claims += 1) brought += await this.#claim(3)
      }
      await this.#driver.look()
    }
    return this.#testQueue.countJobs()
  }

  async #push(tenant: number, at: number): Promise<void> {
    const job = { id: `${this.#pushed}`, lane: 0, performIn: PAST + at }
    this.#pushed += 1
    await this.#testQueue.push(tenant === 0 ? job : { ...job, tenant: `t${tenant}` })
  }

  async #claim(most: number): Promise<number> {
    const { rounds } = await this.#driver.claim(most)
    this.#inWork.push(...rounds)
    return rounds.length
  }

  async #performElsewhere(most: number): Promise<void> {
    const other = await this.#testQueue.claimer()
    await other.complete(...(await other.claim({ batchSize: most })).rounds)
    // It waits no longer for the places that it was refused, or some would be left for it.
    await env.query('DELETE FROM lockstep.turns')
  }

  async #act(kind: 'delete' | 'performNow', id: string): Promise<void> {
    await env.lockstep[kind](this.#testQueue.queue, { ids: [id] })
  }

  /** While a queue is paused, claims bring nothing, and know nothing of its limits. */
  async #pause(): Promise<void> {
    await env.lockstep.pause(this.#testQueue.queue)
    await this.#claim(3)
    await env.lockstep.resume(this.#testQueue.queue)
  }
}

function limitsOf(concurrency: number): Limits | undefined {
  return concurrency === 0 ? undefined : { tenant: { concurrency } }
}

describe('P8 what limits keep waiting in a lane that tenants share', () => {
  test('is performed in the end, whatever is pushed, claimed, moved, deleted or released meanwhile', {
    tags: 'slow',
    timeout: 600_000,
  }, async () => {
    const property = fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
      const testQueue = await env.queue({ limits: { tenant: { concurrency: 1 } } })
      await limit(testQueue, limitsOf(1))
      const session = await env.session()
      const sizes = { mostKnown: 3, step: 4 }
      const course = new Course(testQueue, new LaneDriver(testQueue, await env.process(), session, sizes))
      for (const one of steps) await course.take(one)
      expect(await course.drain()).toBe(0)
      await session.end()
    })
    await fc.assert(property, {
      numRuns: Number(process.env.LOCKSTEP_MODEL_RUNS ?? 40),
      endOnFailure: true,
    })
  })

  test('begins in the order of time, however many wait and few are remembered', async () => {
    const testQueue = await env.queue({ limits: { tenant: { concurrency: 1 } } })
    await limit(testQueue, limitsOf(1))
    const ids = Array.from({ length: 60 }, (_, n) => `${n}`.padStart(2, '0'))
    await testQueue.push(
      ...ids.map((id, n) => ({ id, lane: 0, tenant: `t${n % 2}`, performIn: PAST + n })),
      ...ids.map((id, n) => ({ id: `free ${id}`, lane: 0, performIn: PAST + n })),
    )
    const session = await env.session()
    const driver = new LaneDriver(testQueue, await env.process(), session, { mostKnown: 4, step: 10 })
    const began: string[] = []
    for (let claims = 0; claims < 400 && began.length < 120; claims += 1) {
      const { rounds } = await driver.claim(4)
      began.push(...rounds.map(({ id }) => id))
      await driver.complete(rounds)
    }
    for (const tenant of [0, 1])
      expect(began.filter((id) => id.length === 2 && Number(id) % 2 === tenant)).toEqual(
        ids.filter((_, n) => n % 2 === tenant),
      )
    expect(began).toHaveLength(120)
  })
})

describe('the jobs that are known of a tenant', () => {
  const job = (performIn: number, id = `${performIn}`) => ({ performIn, id })
  const place = (after: number, afterId = '') => ({ after, afterId })

  test('are the first ones, in order and once each; others are sought behind', () => {
    const known = new KnownJobs()
    known.learn([job(1), job(3), job(5)], 3)
    known.learn([job(2), job(3)], 3)
    expect(known.jobs).toEqual([job(1), job(2), job(3)])
    expect(known.rest).toEqual(place(4))
    expect(known.drop(new Set(['1', 'x']))).toBe(true)
    // Between these, there may be others.
    known.learn([job(9)], 3)
    expect(known.jobs).toEqual([job(2), job(3)])
    known.drop(new Set(['2', '3']))
    expect(known.start).toEqual(place(4))
    known.read(place(4), place(7), false)
    known.learn([job(5), job(6)], 3)
    expect([known.jobs, known.rest]).toEqual([[job(5), job(6)], place(7)])
    known.read(place(7), place(8), true)
    expect(known.rest).toBeUndefined()
  })

  test('may be due at the same time', () => {
    const known = new KnownJobs()
    known.learn([job(1, 'a'), job(1, 'b'), job(1, 'c')], 2)
    expect(known.rest).toEqual(place(1, 'b'))
  })
})

describe('the trail of a lane', () => {
  const place = (after: number) => ({ after, afterId: '' })

  test('says how far one may go past some jobs, and stays short', () => {
    const trail = new Trail(10)
    for (let n = 1; n <= 5; n += 1) trail.note(place(n), 4)
    expect([0, 2, 4].map((from) => trail.after(place(from)))).toEqual([place(2), place(4), place(5)])
    expect(trail.after(place(5))).toBeUndefined()
    expect([trail.after(place(0), 2), trail.after(place(0), 9)]).toEqual([place(4), undefined])
    trail.forgetBefore(place(3))
    expect(trail.after(place(0))).toEqual(place(4))
    for (let n = 6; n <= 20_000; n += 1) trail.note(place(n), 10)
    let marks = 0
    for (let at = trail.after(place(0)); at; at = trail.after(at)) marks += 1
    expect(marks).toBeLessThanOrEqual(1_000)
  })
})
