import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import {
  type Candidate,
  defineQueue,
  fair,
  lag,
  type Queue,
  type Scheduler,
  seq,
  strict,
  weighted,
} from '../../src/index.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const PAST = Date.now() - 100_000

const env = useWorkers()

/** A handler that takes so long that nothing is claimed ahead: then each batch is in turn. */
const unhurried = () => sleep(6)

function candidate(queue: string, shard = 0, lane = 0, lagging = 1): Candidate {
  return { queue, shard, lane, lag: lagging }
}

describe('R13: a scheduler picks', () => {
  test('fair: every queue in turn, however much each has', () => {
    const all = [
      candidate('a', 0, 0, 9),
      candidate('a', 1, 0, 50),
      candidate('b', 0, 0, 2),
      candidate('c', 0, 0, 1),
    ]
    const scheduler = fair()
    const picked = Array.from({ length: 6 }, () => scheduler.pick(all)!)
    expect(picked.map(({ queue }) => queue)).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
    expect(picked[0]).toBe(all[1])
    expect(scheduler.pick([])).toBeUndefined()
  })

  test('fair: a queue that had nothing due comes soon, and has saved up no turns', () => {
    const scheduler = fair()
    const [a, b] = [candidate('a'), candidate('b')]
    for (let turn = 0; turn < 50; turn += 1) scheduler.pick([a])
    const picked = Array.from({ length: 8 }, () => scheduler.pick([a, b])!.queue)
    expect(picked.slice(0, 2)).toContain('b')
    expect(picked.filter((queue) => queue === 'b')).toHaveLength(4)
  })

  test('fair: lane n has an (n + 1)th of the turns of lane 0, and none starves', () => {
    const scheduler = fair()
    const all = [candidate('a', 0, 0), candidate('a', 0, 1), candidate('a', 0, 9), candidate('b')]
    const picked = Array.from({ length: 322 }, () => scheduler.pick(all)!)
    const count = (one: Candidate) => picked.filter((pick) => pick === one).length
    expect(count(all[3]!)).toBe(161)
    expect(count(all[0]!)).toBeCloseTo(100, -1)
    expect(count(all[1]!)).toBeCloseTo(50, -1)
    expect(count(all[2]!)).toBeCloseTo(10, -0.5)
  })

  test('fair, weighted and seq: what is due and may not be picked keeps its turns', () => {
    for (const scheduler of [fair(), weighted({}), seq()]) {
      const [a, b] = [candidate('a'), candidate('b')]
      const picked = (all: Candidate[], others: Candidate[], times: number) =>
        Array.from({ length: times }, () => scheduler.pick(all, others)!.queue)
      expect(new Set(picked([b], [a], 10))).toEqual(new Set(['b']))
      expect(new Set(picked([a, b], [], 10))).toEqual(new Set(['a']))
      expect(picked([a, b], [], 4).toSorted()).toEqual(['a', 'a', 'b', 'b'])
      expect(scheduler.pick([], [a, b])).toBeUndefined()
      // Not without end: others would wait for as long.
      expect(picked([b], [a], 3_000)).not.toContain('a')
      expect(picked([a, b], [], 1_200).filter((queue) => queue === 'b').length).toBeGreaterThan(80)
    }
  })

  test('lag: the largest lag', () => {
    const [a, b, c] = [candidate('a', 0, 0, 5), candidate('b', 0, 0, 9), candidate('c', 0, 0, 7)]
    expect(lag().pick([a, b, c])).toBe(b)
    expect(lag().pick([])).toBeUndefined()
  })

  test('fair, lag, weighted and strict: what has begun of a shard goes on before others of its queue and lane', () => {
    const all = [
      candidate('a', 0, 0, 9),
      { ...candidate('a', 1, 0, 5), isBegun: true },
      { ...candidate('a', 2, 0, 4), isBegun: true },
      { ...candidate('b', 0, 0, 1), isBegun: true },
    ]
    expect(lag().pick(all)).toBe(all[1])
    expect(strict(['a', 'b']).pick(all)).toBe(all[1])
    for (const scheduler of [fair(), weighted({})]) {
      const picked = new Set(Array.from({ length: 200 }, () => scheduler.pick(all)))
      expect(picked).toEqual(new Set([all[1], all[3]]))
    }
  })

  test('fair, lag, weighted and strict: a shard that is being claimed after others of its queue and lane', () => {
    const all = [
      { ...candidate('a', 0, 0, 9), isClaimed: true },
      candidate('a', 1, 0, 5),
      candidate('a', 2, 1, 7),
      { ...candidate('b', 0, 0, 1), isClaimed: true },
    ]
    expect(lag().pick(all)).toBe(all[1])
    expect(strict(['b', 'a']).pick(all)).toBe(all[3])
    expect(strict(['a', 'b']).pick(all)).toBe(all[1])
    for (const scheduler of [fair(), weighted({})]) {
      const picked = new Set(Array.from({ length: 200 }, () => scheduler.pick(all)))
      expect(picked).toEqual(new Set(all.slice(1)))
    }
  })

  test('fair, lag, weighted and strict: of shards that are all being claimed one for which few slots wait', () => {
    const all = [3, 0, 1].map((waiting, shard) => ({
      ...candidate('a', shard, 0, 9 - shard),
      ...{ isClaimed: true, waiting },
    }))
    for (const scheduler of [fair(), lag(), weighted({}), strict([])])
      expect(scheduler.pick(all)).toBe(all[1])
    const ready = candidate('a', 3, 0, 1)
    for (const scheduler of [fair(), lag(), weighted({}), strict([])])
      expect(scheduler.pick([...all, ready])).toBe(ready)
  })

  test('seq: round robin, over what is due', () => {
    const all = [candidate('a', 0), candidate('a', 1), candidate('b', 0), candidate('b', 1)]
    const scheduler = seq()
    const picked = Array.from({ length: 6 }, () => all.indexOf(scheduler.pick(all)!))
    expect(picked).toEqual([0, 1, 2, 3, 0, 1])
    expect(scheduler.pick([all[0]!, all[3]!])).toBe(all[3])
    expect(scheduler.pick([all[0]!, all[3]!])).toBe(all[0])
    expect(scheduler.pick([])).toBeUndefined()
    expect(scheduler.pick(all)).toBe(all[1])
  })

  test('weighted: 6, 3 and 1 have 60, 30 and 10 % of the turns, however many shards each has', () => {
    const scheduler = weighted({ a: 6, b: 3, c: 1 })
    const shards = Array.from({ length: 9 }, (_, shard) => candidate('c', shard))
    const share = shareOf(scheduler, [candidate('a'), candidate('b'), ...shards])
    expect(share('a')).toBeCloseTo(0.6, 1)
    expect(share('b')).toBeCloseTo(0.3, 1)
    expect(share('c')).toBeCloseTo(0.1, 1)
    // A queue that has nothing due leaves its turns to the others.
    const rest = shareOf(scheduler, [candidate('b'), candidate('c')])
    expect(rest('b')).toBeCloseTo(0.75, 1)
    expect(scheduler.pick([])).toBeUndefined()
  })

  test('weighted: the lanes of a queue share its weight', () => {
    const lanes = [0, 1, 2, 3].map((lane) => candidate('a', 0, lane))
    const share = shareOf(weighted({ a: 1, b: 1 }), [...lanes, candidate('b')])
    expect(share('a')).toBeCloseTo(0.5, 1)
    expect(share('a', 3)).toBeCloseTo(0.125, 1)
  })

  test('weighted: lanes of a queue; what is not named weighs 1', () => {
    const scheduler = weighted({ a: { 0: 8 } })
    const share = shareOf(scheduler, [candidate('a', 0, 0), candidate('a', 0, 5), candidate('b')])
    expect(share('a', 0)).toBeCloseTo(0.8, 1)
    expect(share('a', 5)).toBeCloseTo(0.1, 1)
    expect(share('b')).toBeCloseTo(0.1, 1)
  })

  test.each([0, -1, 0.0009, 1_001, 1e-309, Number.NaN, Number.POSITIVE_INFINITY])(
    'weighted: not with a weight of %s',
    (weight) => {
      expect(() => weighted({ a: weight })).toThrow(/weight of "a" must be a number from 0.001 to 1000, not /)
      expect(() => weighted({ a: { 3: weight } })).toThrow(
        /weight of "a" must be a number from 0.001 to 1000, not /,
      )
    },
  )

  test('what is no list or no object is refused', () => {
    for (const wrong of [undefined, null, 'orders', 3]) {
      expect(() => strict(wrong as never)).toThrow(/^strict: the queues must be a list of names, not /)
      expect(() => weighted(wrong as never)).toThrow(/^weighted: the weights must be an object such as /)
    }
    for (const [wrong, name] of [
      [[5], '5'],
      [Array(1), 'undefined'],
      [[defineQueue('a')], 'an object'],
    ] as const)
      expect(() => strict(wrong as never)).toThrow(`strict: each of the queues must be a name, not ${name}`)
    expect(() => strict(['a', 'b', 'a'])).toThrow('strict: "a" is named twice')
    for (const wrong of [[], new Map([['a', 9]])])
      expect(() => weighted(wrong as never)).toThrow(/^weighted: the weights must be an object such as /)
    expect(() => weighted({ a: null } as never)).toThrow(/weight of "a" must be a number .*, not null$/)
  })

  test.each(['x', '-1', '1.5', '01', '40000'])('weighted: not with a weight of lane %s', (lane) => {
    expect(() => weighted({ a: { [lane]: 1 } })).toThrow(
      `weighted: a lane of "a" must be a whole number from 0 to 32767, not "${lane}"`,
    )
  })

  test('strict: in the order given, the lower lane first, those not named last', () => {
    const scheduler = strict(['b', 'a'])
    const all = [
      candidate('z', 0, 0, 99),
      candidate('a', 0, 0, 50),
      candidate('b', 1, 7, 9),
      candidate('b', 0, 7, 8),
    ]
    expect(scheduler.pick(all)).toBe(all[2])
    expect(scheduler.pick([...all, candidate('b', 3, 2, 1)])).toMatchObject({ lane: 2 })
    expect(scheduler.pick(all.slice(0, 2))).toBe(all[1])
    expect(scheduler.pick(all.slice(0, 1))).toBe(all[0])
    expect(scheduler.pick([])).toBeUndefined()
    // What comes after something that is due waits, even if a slot waits for that.
    expect(scheduler.pick([all[1]!], [all[2]!])).toBeUndefined()
    expect(scheduler.pick([all[1]!], [all[0]!])).toBe(all[1])
  })
})

describe('R13: a worker follows its scheduler', () => {
  test('fair, the default: of ten queues none waits behind the backlog of one', async () => {
    const queues = Array.from({ length: 10 }, () => env.queue({ shards: 2, perform: unhurried }))
    const [full, ...others] = queues as [Queue, ...Queue[]]
    await push(full, 100)
    for (const queue of others) await env.lockstep.enqueue(queue, { id: 'fresh' })
    const order: string[] = []
    const worker = env.create({ queues, slots: 1 })
    worker.on('started', ({ queue }) => order.push(queue))
    await worker.start()
    await eventually(() => expect(order.length).toBe(109))
    const places = others.map(({ name }) => order.indexOf(name))
    expect(Math.max(...places)).toBeLessThan(20)
  })

  test('weighted: 6/3/1 are served first 60, 30 and 10 % of the time, and none starves', async () => {
    const queues = [1, 2, 3].map(() => env.queue({ shards: 1, perform: unhurried }))
    for (const queue of queues) await push(queue, 100)
    const weights = Object.fromEntries(queues.map(({ name }, index) => [name, [6, 3, 1][index]!]))
    const order = await startsOf(queues, weighted(weights), 100)
    const share = (queue: number) => order.filter((one) => one === queues[queue]!.name).length / order.length
    for (const [place, expected] of [0.6, 0.3, 0.1].entries()) {
      expect(share(place)).toBeGreaterThan(expected - 0.05)
      expect(share(place)).toBeLessThan(expected + 0.05)
    }
  })

  test.each([
    ['strict', ([urgent]: string[]) => strict([urgent!]), 1],
    ['weighted', ([urgent]: string[]) => weighted({ [urgent!]: 9 }), 0.9],
    ['fair', () => fair(), 0.5],
  ] as const)(
    '%s: also where handlers end together, and a queue has one shard',
    async (_, scheduler, expected) => {
      const perform = () => sleep(50)
      const queues = [env.queue({ shards: 1, perform }), env.queue({ perform })] as const
      for (const queue of queues) await push(queue, 300)
      const names = queues.map(({ name }) => name)
      const order = await startsOf(queues, scheduler(names), 240, 10)
      // At first it isn't known that the urgent one has more due.
      const settled = order.slice(40)
      const share = settled.filter((one) => one === names[0]).length / settled.length
      // A claim that takes longer than a handler leaves some turns to the other.
      expect(share).toBeGreaterThan(expected - 0.1)
      expect(share).toBeLessThan(expected + 0.1)
    },
  )

  test('strict: a queue, and a lane in it, waits until those before it have nothing due', async () => {
    const [first, second] = [env.queue({ shards: 2, perform() {} }), env.queue({ shards: 1, perform() {} })]
    await push(second, 5, 0)
    await push(first, 10, 3)
    await env.lockstep.enqueue(
      first,
      Array.from({ length: 10 }, (_, index) => ({ id: `fast-${index}`, performIn: PAST + 9_000 })),
    )
    const ids: string[] = []
    const worker = env.create({ queues: [second, first], slots: 1, scheduler: strict([first.name]) })
    worker.on('started', (event) => ids.push(...event.ids))
    await worker.start()
    await eventually(() => expect(ids).toHaveLength(25))
    const kinds = ids.map((id) => id.split('-')[0]!)
    expect(kinds).toEqual([...Array(10).fill('fast'), ...Array(10).fill('3'), ...Array(5).fill('0')])
  })

  test('seq: the shards in turn', async () => {
    const queue = env.queue({ shards: 3, perform: unhurried })
    await push(queue, 60)
    const shards: number[] = []
    const worker = env.create({ queues: [queue], slots: 1, scheduler: seq() })
    worker.on('started', ({ shard }) => shards.push(shard))
    await worker.start()
    await eventually(() => expect(shards).toHaveLength(60))
    expect(shards.slice(0, 30)).toEqual(Array.from({ length: 30 }, (_, turn) => turn % 3))
  })

  test('one of the user’s own: any object with a pick', async () => {
    const queue = env.queue({ shards: 4, perform() {} })
    await push(queue, 40)
    const highest: Scheduler = { pick: (candidates) => candidates.at(-1) }
    const shards: number[] = []
    const worker = env.create({ queues: [queue], slots: 1, scheduler: highest })
    worker.on('started', ({ shard }) => shards.push(shard))
    await worker.start()
    await eventually(() => expect(shards).toHaveLength(40))
    expect(shards).toEqual(shards.toSorted((a, b) => b - a))
  })

  test('one of the user’s own is never asked while nothing is due', async () => {
    const queue = env.queue({ shards: 4, perform() {} })
    const counts: number[] = []
    const counting: Scheduler = {
      pick(candidates) {
        counts.push(candidates.length)
        return candidates[0]
      },
    }
    const worker = await env.work({ queues: [queue], slots: 5, scheduler: counting })
    for (let count = 0; count < 10; count += 1) {
      const completed = next(worker, 'completed')
      await env.lockstep.enqueue(queue, { id: 'a' })
      await completed
    }
    expect(Math.min(...counts)).toBe(1)
  })

  test('one that throws, and one that declines, do not end the slot', async () => {
    const queue = env.queue({ perform() {} })
    let picks = 0
    const moody: Scheduler = {
      pick(candidates) {
        picks += 1
        if (picks === 1) throw new Error('moody')
        return picks === 2 ? undefined : candidates[0]
      },
    }
    const worker = await env.work({ queues: [queue], slots: 1, scheduler: moody })
    const failure = next(worker, 'failure')
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    expect(await failure).toEqual(new Error('moody'))
    await completed
    expect(env.warnings).toContainEqual({
      fields: { error: expect.stringContaining('moody') },
      message: expect.stringContaining('the scheduler failed'),
    })
  })

  test('one that freezes what it was given, and all that is in it, ends neither a slot nor the process', async () => {
    const queue = env.queue({ shards: 4, perform() {} })
    await push(queue, 40)
    const freezing: Scheduler = {
      pick(candidates, others) {
        deepFreeze(candidates)
        deepFreeze(others)
        return candidates[0]
      },
    }
    let completed = 0
    const worker = env.create({ queues: [queue], slots: 3, scheduler: freezing })
    worker.on('completed', () => {
      completed += 1
    })
    await worker.start()
    await eventually(() => expect(completed).toBe(40))
  })

  test('what it picks must be what it was given: a copy is told and left alone', async () => {
    const queue = env.queue({ perform() {} })
    let picks = 0
    const copying: Scheduler = {
      pick(candidates) {
        if (candidates.length > 0) picks += 1
        return picks === 1 ? { ...candidates[0]! } : candidates[0]
      },
    }
    const worker = await env.work({ queues: [queue], slots: 1, scheduler: copying })
    const failure = next(worker, 'failure')
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    expect(await failure).toMatchObject({
      message: expect.stringContaining('candidates it was given, not a copy'),
    })
    await completed
    expect(await worker.stop()).toBe(true)
  })

  test('one that takes its pick out of the list', async () => {
    const queue = env.queue({ shards: 2, perform() {} })
    const taking: Scheduler = { pick: (candidates) => (candidates as unknown as never[]).splice(0)[0] }
    const worker = await env.work({ queues: [queue], slots: 1, scheduler: taking })
    await env.lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(worker.report()).toEqual([])
    expect(env.warnings).toEqual([])
  })

  test('one that declines is not asked without pause', async () => {
    const queue = env.queue({ perform() {} })
    let picks = 0
    const declining: Scheduler = {
      pick(candidates) {
        if (candidates.length > 0) picks += 1
        return undefined
      },
    }
    await env.work({ queues: [queue], slots: 1, scheduler: declining })
    await env.lockstep.enqueue(queue, { id: 'a' })
    await eventually(() => expect(picks).toBeGreaterThan(0))
    const before = picks
    await sleep(500)
    expect(picks - before).toBeLessThan(20)
  })

  test('one that picks by a promise is told so, and a rejection of it ends nothing', async () => {
    const queue = env.queue({ perform() {} })
    let picks = 0
    const slow = {
      pick(candidates: readonly Candidate[]) {
        if (candidates.length > 0) picks += 1
        return picks === 1 ? Promise.reject(new Error('later')) : candidates[0]
      },
    } as unknown as Scheduler
    const worker = await env.work({ queues: [queue], slots: 1, scheduler: slow })
    const failure = next(worker, 'failure')
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    expect(await failure).toMatchObject({ code: 'LOCKSTEP_BAD_OPTION' })
    await completed
  })

  test.each([
    ['weighted', (name: string) => weighted({ ordres: 3, [name]: 2 })],
    ['strict', (name: string) => strict(['ordres', name])],
  ])('%s: a queue that it names and the worker does not serve is told', async (_, schedulerFor) => {
    const queue = env.queue({ perform() {} })
    await env.work({ queues: [queue], scheduler: schedulerFor(queue.name) })
    expect(env.warnings).toEqual([
      {
        fields: { unserved: ['ordres'], served: [queue.name] },
        message: 'the scheduler names queues that this worker does not serve',
      },
    ])
  })
})

function shareOf(scheduler: Scheduler, candidates: readonly Candidate[]) {
  const draws = Array.from({ length: 6_000 }, () => scheduler.pick(candidates)!)
  return (queue: string, lane?: number) =>
    draws.filter((one) => one.queue === queue && (lane === undefined || one.lane === lane)).length / 6_000
}

async function startsOf(
  queues: readonly Queue[],
  scheduler: Scheduler,
  count: number,
  slots = 1,
): Promise<string[]> {
  const order: string[] = []
  const worker = env.create({ queues, slots, scheduler })
  worker.on('started', ({ queue }) => order.push(queue))
  await worker.start()
  await eventually(() => expect(order.length).toBeGreaterThanOrEqual(count))
  return order.slice(0, count)
}

/** With everything that its own properties lead to. */
function deepFreeze(one: unknown): void {
  if (typeof one !== 'object' || one === null || Object.isFrozen(one)) return
  Object.freeze(one)
  for (const name of Object.getOwnPropertyNames(one)) deepFreeze((one as Record<string, unknown>)[name])
}

/** Pushes jobs that have been due for a long time. */
async function push(queue: Queue, count: number, lane = 0): Promise<void> {
  const jobs = Array.from({ length: count }, (_, index) => ({
    id: `${lane}-${index}`,
    performIn: PAST + index,
    lane,
  }))
  await env.lockstep.enqueue(queue, jobs)
}
