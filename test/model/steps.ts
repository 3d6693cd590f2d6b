import fc from 'fast-check'
import { expect } from 'vitest'
import { complete, completeIn, discard, fail, release, snooze } from './ending.ts'
import { handed } from './real.ts'
import { places, small, step } from './step.ts'
import { type Expiry, FUTURE, type Limits, type Pushed, type Retries } from './words.ts'
import { expectOrder, type World } from './world.ts'

const IDS = ['a', 'b', 'c', 'd']
export const TENANTS = ['s', 't']
const someIds = fc.subarray(IDS, { minLength: 1 })
const pushed: fc.Arbitrary<Pushed> = fc.record({
  id: fc.constantFrom(...IDS),
  payload: fc.constantFrom('v', 'w', 'x', 'y'),
  score: small,
  mark: fc.oneof(
    { weight: 2, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constantFrom('p', 'q') },
  ),
  performIn: fc.oneof(
    { weight: 4, arbitrary: small },
    { weight: 1, arbitrary: small.map((n) => n + 2_000_000_000) },
  ),
  tenant: fc.constantFrom(null, null, ...TENANTS, TENANTS[0]!),
  expiry: fc.constantFrom<Expiry[]>('never', 'never', 'never', 'later', 'later', 'past'),
  lane: fc.oneof(
    { weight: 6, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: fc.nat({ max: 1 }) },
  ),
})
const pushes = fc.array(pushed, { minLength: 1, maxLength: 4 })

/** Two pushes of one row would wait for each other. */
const unlocked = (world: World, ids: readonly string[]) => ids.every((id) => !world.model.locked(id))
const idsOf = (some: readonly Pushed[]) => some.map(({ id }) => id)

const push = step('push', pushes, (some) => ({
  possible: (world) => unlocked(world, idsOf(some)),
  async act({ model, real }) {
    model.push(model.tenants.place(some))
    await real.pushIn(some)
  },
}))

/** Pushes behind a round in progress, so that something can come between this push and the end of the round. */
const pushBehind = step('push behind', fc.tuple(places, pushed, fc.boolean()), ([place, one, later]) => ({
  possible: (world) => inWork(world).some((id) => !world.model.locked(id)),
  async act(world) {
    const { model, real } = world
    const ids = inWork(world).filter((id) => !model.locked(id))
    const some = [{ ...one, id: ids[place % ids.length]!, performIn: later ? 2_000_000_000 : one.performIn }]
    model.push(model.tenants.place(some))
    await real.pushIn(some)
  },
}))

function inWork({ model }: World): string[] {
  return model.inWork().map(({ id }) => id)
}

const begin = step('push in a transaction', fc.tuple(fc.nat({ max: 1 }), pushes), ([place, some]) => ({
  possible: (world) => !world.model.open.has(place) && unlocked(world, idsOf(some)),
  async act({ model, real }) {
    model.open.set(place, model.tenants.place(some))
    await real.pushIn(some, await real.begin(place))
  },
}))

const end = step(
  'end of the transaction',
  fc.tuple(fc.nat({ max: 1 }), fc.boolean()),
  ([place, commits]) => ({
    possible: (world) => world.model.open.has(place),
    async act({ model, real }) {
      const some = model.open.get(place)!
      model.open.delete(place)
      if (commits) model.push(some)
      await real.end(place, commits ? 'COMMIT' : 'ROLLBACK')
    },
  }),
)

/** Mostly a lane and shard where a job can be claimed. */
function somewhere({ model, shardOf, shards }: World, place: number): { lane: number; shard: number } {
  const jobs = [...model.jobs.values()].filter((job) => model.free(job) && job.performIn < FUTURE)
  const job = place > 0 ? jobs[place % jobs.length] : undefined
  return job ? { lane: job.lane, shard: shardOf.get(job.id)! } : { lane: place % 2, shard: place % shards }
}

/** A live process, now and then a dead one. */
function someProcess({ model }: World, place: number): number {
  const alive = model.alive.flatMap((lives, process) => (lives ? [process] : []))
  return place === 0 ? 0 : alive[place % alive.length]!
}

const claim = step('claim', fc.record({ process: small, place: places }), (of) => ({
  async act(world) {
    const { model, real, shardOf } = world
    const process = someProcess(world, of.process)
    const { lane, shard } = somewhere(world, of.place)
    const { chosen, over } = model.claim(process, lane, (id) => shardOf.get(id) === shard)
    const { rounds, waits } = await real.claim(process, { lane, shard })
    expect(rounds.map(({ id }) => id)).toEqual(chosen.map(({ id }) => id))
    expect(waits?.limits.map(({ tenant }) => tenant) ?? []).toEqual(over)
    for (const [place, claimed] of chosen.entries()) {
      const round = (await real.claimers[process]!.load(rounds[place]!))!
      const taken = model.asTaken(claimed, round.payloads)
      const { retryCount, crashes, rescued, error, cut } = taken
      const { tenant } = model.jobs.get(taken.id)!
      expect(round).toMatchObject({ tenant, retryCount, crashes, rescued, error })
      expect(round.cut !== undefined).toBe(cut)
      expectOrder(handed(round), taken.taken)
      world.held.push({ claim: taken, round })
    }
  },
}))

/** Its lease ends, and another process comes. */
const die = step('die', small, (which) => ({
  possible: (world) => world.real.claimers.length < 16 && (which === 0 || busyProcesses(world).length > 0),
  async act(world) {
    const { model, real } = world
    const busy = busyProcesses(world)
    const process = which === 0 ? someProcess(world, 1) : busy[which % busy.length]!
    model.alive[process] = false
    await real.testQueue.env.expire(real.claimers[process]!.processId)
    await world.join()
  },
}))

function busyProcesses({ model }: World): number[] {
  return [...model.jobs.values()].flatMap(({ claim }) =>
    claim && model.alive[claim.process] ? [claim.process] : [],
  )
}

const requeue = step('requeue', someIds, (ids) => ({
  possible: (world) => unlocked(world, IDS),
  async act({ model, real }) {
    const { done } = await real.testQueue.env.lockstep.requeue(real.testQueue.queue, { ids })
    expect(done).toBe(model.requeue(ids))
  },
}))

const ACTS = ['delete', 'kill', 'performNow'] as const
const retries: fc.Arbitrary<Retries> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.constantFrom({ to: -1 }, { from: 0 }) },
)

/** Mostly acts on what waits behind a round in progress, if there is something. */
const act = step(
  'act',
  fc.tuple(fc.constantFrom(...ACTS), places, someIds, retries),
  ([name, place, some, retryCount]) => ({
    possible: (world) => unlocked(world, IDS),
    async act(world) {
      const { model, real } = world
      const ids =
        place > 1 && behind(world).length > 0 ? [behind(world)[place % behind(world).length]!] : some
      const filter = Object.keys(retryCount).length > 0 ? { ids, retryCount } : { ids }
      const { done } = await real.testQueue.env.lockstep[name](real.testQueue.queue, filter)
      expect(done).toBe(model[name](ids, retryCount))
    },
  }),
)

function behind(world: World): string[] {
  return inWork(world).filter((id) => world.model.jobs.get(id)!.nextPerformIn !== null)
}

const reshard = step('reshard', fc.integer({ min: 1, max: 4 }), (shards) => ({
  possible: ({ model }) => model.open.size === 0,
  async act(world) {
    world.shards = shards
    await world.real.testQueue.env.lockstep.reshard(world.real.testQueue.queue, shards)
  },
}))

const passTime = step('time passes', fc.constant(null), () => ({
  possible: ({ model }) => model.open.size === 0,
  async act({ model, real }) {
    model.passTime()
    await real.passTime()
  },
}))

const letExpire = step('a job expires', places, (place) => ({
  possible: ({ model }) => model.open.size === 0 && model.expiring().length > 0,
  async act({ model, real }) {
    const ids = model.expiring()
    const id = ids[place % ids.length]!
    model.letExpire(id)
    await real.letExpire(id)
  },
}))

const sweep = step('sweep', fc.constant(null), () => ({
  async act({ model, real }) {
    model.sweep()
    await real.sweep()
  },
}))

const concurrency = fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined })

/** Another worker starts, and its definition has other limits. Rates stay. */
const limit = step('limits', fc.tuple(concurrency, concurrency), ([ofQueue, ofTenant]) => ({
  possible: ({ model }) => Object.keys(model.policy.limits).length > 0,
  async act({ model, real }) {
    const { rate, tenant } = model.policy.limits
    const limits: Limits = { concurrency: ofQueue, rate, tenant: { ...tenant, concurrency: ofTenant } }
    model.tenants.limits = limits
    await real.limit(limits)
  },
}))

/** What workers do every few minutes changes nothing. */
const trim = step('trim', fc.constant(null), () => ({
  act: ({ real }) => real.trim(),
}))

/** Sequences in which work goes on more often than things go wrong. */
export const sequences = fc.noBias(
  fc.array(
    fc.oneof(
      { weight: 4, arbitrary: push },
      { weight: 3, arbitrary: pushBehind },
      { weight: 6, arbitrary: claim },
      { weight: 3, arbitrary: complete },
      { weight: 4, arbitrary: fail },
      { weight: 1, arbitrary: discard },
      { weight: 1, arbitrary: snooze },
      { weight: 2, arbitrary: die },
      { weight: 3, arbitrary: act },
      { weight: 1, arbitrary: requeue },
      { weight: 1, arbitrary: begin },
      { weight: 2, arbitrary: end },
      { weight: 1, arbitrary: release },
      { weight: 1, arbitrary: completeIn },
      { weight: 1, arbitrary: reshard },
      { weight: 1, arbitrary: passTime },
      { weight: 1, arbitrary: limit },
      { weight: 1, arbitrary: trim },
      { weight: 2, arbitrary: letExpire },
      { weight: 1, arbitrary: sweep },
    ),
    { minLength: 1, maxLength: 80, size: 'max' },
  ),
)
