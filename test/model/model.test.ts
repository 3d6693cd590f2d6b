import fc from 'fast-check'
import { afterAll, beforeAll, test } from 'vitest'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { Model } from './model.ts'
import { Real } from './real.ts'
import { sequences } from './steps.ts'
import type { Policy } from './words.ts'
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

const policies: fc.Arbitrary<Policy> = fc.record({
  batchSize: fc.integer({ min: 1, max: 3 }),
  maxPayloads: fc.option(fc.integer({ min: 1, max: 2 }), { nil: undefined }),
  // Payloads have three bytes as JSON, and headers 13.
  maxBytes: fc.constantFrom(1, 5, 8, 24, 1_000),
  maxRetryCount: fc.integer({ min: 0, max: 2 }),
})

test(
  'R1 to R11: whatever is done, in whatever order, jobs, payloads and morgue are those of the model',
  async () => {
    await fc.assert(
      fc.asyncProperty(policies, fc.integer({ min: 1, max: 2 }), sequences, async (policy, shards, steps) => {
        const testQueue = await env.queue({ ...policy, shards })
        const world = new World(new Model(policy), new Real(testQueue), shards)
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
