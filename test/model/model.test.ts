import fc from 'fast-check'
import { afterAll, beforeAll, test } from 'vitest'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { Model } from './model.ts'
import { Real } from './real.ts'
import { sequences, TENANTS } from './steps.ts'
import type { Limit, Limits, Policy, Rule } from './words.ts'
import { World } from './world.ts'

/**
 * How many sequences to try. LOCKSTEP_MODEL_RUNS=5000 tries more, by hand. A failure reports its seed and path at once.
 * LOCKSTEP_MODEL_SEED and LOCKSTEP_MODEL_PATH try that sequence again, and look for a shorter one.
 */
const { LOCKSTEP_MODEL_RUNS = '60', LOCKSTEP_MODEL_SEED, LOCKSTEP_MODEL_PATH } = process.env
const RUNS = Number(LOCKSTEP_MODEL_RUNS)
const PROCESSES = 2

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

const rule: fc.Arbitrary<Rule> = fc.record({
  over: fc.integer({ min: 0, max: 6 }),
  within: fc.integer({ min: 1, max: 2 }),
  lane: fc.nat({ max: 2 }),
})
/** `least`: how many may begin at the least. Much can't be tried if that is little. */
const limit = (least: number): fc.Arbitrary<Limit> =>
  fc.record({
    concurrency: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
    rate: fc.option(
      fc.record({ jobs: fc.integer({ min: least, max: 3 * least }), within: fc.integer({ min: 1, max: 2 }) }),
      { nil: undefined },
    ),
  })
const limits: fc.Arbitrary<Limits> = fc
  .tuple(limit(6), fc.option(limit(3), { nil: undefined }))
  .map(([own, tenant]) => ({ ...own, tenant }))

const policies: fc.Arbitrary<Policy> = fc.record({
  batchSize: fc.integer({ min: 1, max: 3 }),
  maxPayloads: fc.option(fc.integer({ min: 1, max: 2 }), { nil: undefined }),
  // Payloads have three bytes as JSON, and headers 13.
  maxBytes: fc.constantFrom(1, 5, 8, 24, 1_000),
  maxRetryCount: fc.integer({ min: 0, max: 2 }),
  rules: fc.oneof(fc.constant([]), fc.array(rule, { minLength: 1, maxLength: 3 })),
  limits: fc.oneof(fc.constant({}), limits),
})

test(
  'R1 to R11, R17, tenants and limits: whatever is done, in whatever order, jobs, payloads and morgue are those of the model',
  async () => {
    await fc.assert(
      fc.asyncProperty(policies, fc.integer({ min: 1, max: 2 }), sequences, async (policy, shards, steps) => {
        const { rules, limits, ...rest } = policy
        const real = new Real(await env.queue({ ...rest, shards }))
        await real.rule(rules)
        await real.limit(limits)
        const world = new World(new Model(policy, await real.settleIn(TENANTS)), real, shards)
        for (let process = 0; process < PROCESSES; process += 1) await world.join()
        try {
          await fc.asyncModelRun(() => ({ model: world, real: world }), steps)
        } finally {
          await env.endSessions()
        }
      }),
      {
        numRuns: RUNS,
        endOnFailure: LOCKSTEP_MODEL_SEED === undefined,
        ...(LOCKSTEP_MODEL_SEED && { seed: Number(LOCKSTEP_MODEL_SEED) }),
        ...(LOCKSTEP_MODEL_PATH && { path: LOCKSTEP_MODEL_PATH }),
      },
    )
  },
  20_000 + RUNS * 5_000,
)
