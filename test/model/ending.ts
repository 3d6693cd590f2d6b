import fc from 'fast-check'
import { expect } from 'vitest'
import { answerFor } from './real.ts'
import { places, small, step } from './step.ts'
import type { Answer } from './words.ts'
import type { Held, World } from './world.ts'

type Finish = (world: World, held: Held) => Promise<[expected: Answer, real: string | undefined]>

/** Mostly a claim that still holds, otherwise one of the last claims. One whose row was locked may be tried again. */
function someClaim(world: World, luck: number, place: number): Held {
  if (luck === 0) return world.held.at(-1 - (place % world.held.length))!
  const current = currentClaims(world)
  return current[place % current.length]!
}

function currentClaims({ model, held }: World): Held[] {
  return held.filter(({ claim }) => model.jobs.get(claim.id)?.claim === claim)
}

function finish(
  name: string,
  values: fc.Arbitrary<unknown>,
  how: (value: never) => Finish,
): ReturnType<typeof step> {
  return step(name, fc.tuple(small, places, values), ([luck, place, value]) => ({
    possible: (world) => (luck === 0 ? world.held : currentClaims(world)).length > 0,
    async act(world) {
      const [expected, real] = await how(value as never)(world, someClaim(world, luck, place))
      expect(real).toBe(expected)
    },
  }))
}

export const discard = finish(
  'discard',
  fc.constant(null),
  () =>
    async ({ model, real }, { claim, round }) => [
      model.discard(claim, 'discarded'),
      answerFor(await real.claimers[claim.process]!.discard(round), claim.id),
    ],
)

export const snooze = finish(
  'snooze',
  fc.boolean(),
  (later: boolean) =>
    async ({ model, real }, { claim, round }) => {
      const leftovers = await real.claimers[claim.process]!.fail([round], later ? 1_000_000_000 : 0, null)
      return [model.snooze(claim, later), answerFor(leftovers, claim.id)]
    },
)

export const complete = finish(
  'complete',
  fc.constant(null),
  () =>
    async ({ model, real }, { claim, round }) => [
      model.complete(claim),
      answerFor(await real.claimers[claim.process]!.complete(round), claim.id),
    ],
)

export const completeIn = finish(
  'complete in a transaction',
  fc.boolean(),
  (commits: boolean) => async (world, held) => {
    const { model, real } = world
    const { claim, round } = held
    const claimer = real.claimers[claim.process]!
    const tx = await claimer.testQueue.env.transaction()
    await tx.query('SET LOCAL lock_timeout = 50')
    const answer = await claimer.completeIn(tx, round).then(
      (leftovers) => answerFor(leftovers, claim.id),
      () => 'held',
    )
    const done = commits && answer !== 'held'
    await tx.query(done ? 'COMMIT' : 'ROLLBACK')
    if (done) return [model.complete(claim), answer]
    const current = model.jobs.get(claim.id)?.claim === claim
    return [current && model.locked(claim.id) ? 'held' : (answer as Answer), answer]
  },
)

export const fail = finish(
  'fail',
  fc.boolean(),
  (later: boolean) =>
    async ({ model, real }, { claim, round }) => {
      const dies = claim.retryCount + 1 >= model.policy.maxRetryCount
      // Each is another.
      const error = `no ${model.now()}`
      const leftovers = await real.claimers[claim.process]!.fail(
        [round],
        dies ? null : later ? 1_000_000_000 : 0,
        error,
      )
      return [model.fail(claim, error, later), answerFor(leftovers, claim.id)]
    },
)

export const release = finish(
  'release',
  fc.constant(null),
  () =>
    async ({ model, real }, { claim, round }) => [
      model.release(claim),
      answerFor(await real.claimers[claim.process]!.release(round), claim.id),
    ],
)
