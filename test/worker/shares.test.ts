import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'
import { describe, expect, test } from 'vitest'
import {
  type Candidate,
  fair,
  lag,
  type Scheduler,
  seq,
  strict,
  type TakenJob,
  weighted,
} from '../../src/index.ts'
import { weightedBy } from '../../src/worker/schedule/weighted.ts'

function candidate(queue: string, lane = 0, tenantLane?: number): Candidate {
  return { queue, shard: 0, lane, tenantLane, lag: 1 }
}

const jobsOf = (tenant: string | null, count = 1): TakenJob[] =>
  Array.from({ length: count }, () => ({ tenant }))

/** What a scheduler gives when each pick takes as many jobs as `takes` says, until `jobs` are taken. */
function shares(
  scheduler: Scheduler,
  candidates: readonly Candidate[],
  takes: (pick: Candidate) => readonly TakenJob[],
  jobs: number,
): (one: Candidate) => number {
  const taken = new Map<Candidate, number>()
  for (let all = 0; all < jobs; ) {
    const pick = scheduler.pick(candidates)!
    const batch = takes(pick)
    scheduler.took!(pick, batch)
    taken.set(pick, (taken.get(pick) ?? 0) + batch.length)
    all += batch.length
  }
  const sum = [...taken.values()].reduce((a, b) => a + b)
  return (one) => (taken.get(one) ?? 0) / sum
}

const one = () => jobsOf(null)

function seeded(seed: number): () => number {
  const generator = xoroshiro128plus(seed)
  return () => uniformFloat64(generator)
}

describe('R13: shares are by the number of jobs', () => {
  test.each([
    ['fair', fair],
    ['weighted', () => weighted({})],
  ])('%s: a queue with large batches has its turn more rarely', (_, create) => {
    const [large, small] = [candidate('a'), candidate('b')]
    const share = shares(create(), [large, small], (pick) => jobsOf(null, pick === large ? 10 : 1), 4_000)
    expect(share(large)).toBeCloseTo(0.5, 1)
  })

  test('fair: so does a lane, and a tenant', () => {
    const lanes = [candidate('a', 0), candidate('a', 1)] as const
    const byLane = shares(fair(), lanes, ({ lane }) => jobsOf(null, lane === 1 ? 20 : 1), 6_000)
    expect(byLane(lanes[1])).toBeCloseTo(1 / 3, 1)
    const tenants = [candidate('a', 0, -1), candidate('a', 0, -9)] as const
    const byTenant = shares(fair(), tenants, (pick) => jobsOf('x', pick === tenants[0] ? 20 : 1), 6_000)
    expect(byTenant(tenants[0])).toBeCloseTo(0.5, 1)
  })

  test.each([
    ['fair', fair],
    ['weighted', () => weighted({})],
  ])('%s: a pick that took nothing has its turn back', (_, create) => {
    const scheduler = create()
    const all = [candidate('a'), candidate('b')]
    const first = scheduler.pick(all)!
    scheduler.took!(first, [])
    expect(scheduler.pick(all)).toBe(first)
  })

  test('fair: slots that pick before the first of them has taken anything go to different queues and tenants', () => {
    const scheduler = fair()
    const all = [candidate('a', 0, -2), candidate('a', 0, -1), candidate('b', 0)]
    expect(new Set(Array.from({ length: 4 }, () => scheduler.pick(all)))).toEqual(new Set(all))
  })

  test('fair: what was charged is given back as it was, whatever the next jobs cost', () => {
    const scheduler = fair({ weight: (tenant) => (tenant === 'light' ? 0.01 : 100) })
    const all = [candidate('a', 0, -2), candidate('a', 0, -1)] as const
    // Their prices change while picks are open.
    const open = Array.from({ length: 20 }, () => scheduler.pick(all)!)
    for (const pick of open) scheduler.took!(pick, jobsOf('heavy'))
    const share = shares(scheduler, all, () => jobsOf('heavy'), 1_000)
    expect(share(all[0])).toBeCloseTo(0.5, 1)
  })

  test('a pick that is never settled costs one job', () => {
    const scheduler = fair()
    const all = [candidate('a'), candidate('b')]
    const picked = Array.from({ length: 10 }, () => scheduler.pick(all)!.queue)
    expect(picked.filter((queue) => queue === 'a')).toHaveLength(5)
  })
})

describe('R13: fair shares among tenants', () => {
  const [a, b, c] = [candidate('q', 0, -3), candidate('q', 0, -2), candidate('q', 0, -1)] as const
  const untagged = candidate('q', 0)
  const nameOf = (pick: Candidate) => ['untagged', 'c', 'b', 'a'][-(pick.tenantLane ?? 0)]!

  test('each has the same, and so have the jobs of nobody in particular', () => {
    const share = shares(
      fair(),
      [a, b, c, untagged],
      (pick) => jobsOf(pick.tenantLane ? nameOf(pick) : null),
      4_000,
    )
    for (const each of [a, b, c, untagged]) expect(share(each)).toBeCloseTo(0.25, 2)
  })

  test('lanes have what they had, however many tenants share lane 0', () => {
    const slow = candidate('q', 1)
    const share = shares(fair(), [a, b, c, untagged, slow], one, 6_000)
    expect(share(slow)).toBeCloseTo(1 / 3, 2)
    expect(share(a)).toBeCloseTo(1 / 6, 2)
  })

  test('by weight, also where tenants of several weights share a lane', () => {
    const weights: Record<string, number> = { a: 2, b: 1, c: 0.5 }
    const share = shares(
      fair({ weight: (tenant) => weights[tenant]! }),
      [a, b, c],
      (pick) => jobsOf(nameOf(pick)),
      7_000,
    )
    expect(share(a)).toBeCloseTo(4 / 7, 2)
    expect(share(c)).toBeCloseTo(1 / 7, 2)
    const mixed = shares(
      fair({ weight: (tenant) => weights[tenant]! }),
      [a, b],
      (pick) => (pick === a ? [...jobsOf('a'), ...jobsOf('c')] : jobsOf('b')),
      5_000,
    )
    // A pair of a's and c's jobs costs 2.5.
    expect(mixed(a)).toBeCloseTo(2 / 4.5, 1)
  })

  test('a newcomer neither waits behind a backlog nor is paid for the time it was away', () => {
    for (const away of [10, 10_000]) {
      const scheduler = fair()
      const take = (pick: Candidate) => {
        scheduler.took!(pick, one())
        return pick
      }
      take(scheduler.pick([a, b])!)
      take(scheduler.pick([a, b])!)
      for (let job = 0; job < away; job += 1) take(scheduler.pick([a])!)
      const picked = Array.from({ length: 100 }, () => take(scheduler.pick([a, b])!))
      expect(picked[0]).toBe(b)
      // A few jobs go ahead, and no more.
      expect(picked.indexOf(a)).toBeLessThan(10)
      expect(picked.slice(20).filter((pick) => pick === b)).toHaveLength(40)
    }
  })

  test('what a claim brought goes on for a few jobs, which are paid for', () => {
    const scheduler = fair()
    const begun = { ...a, isBegun: true }
    const picked = Array.from({ length: 60 }, (_, turn) => {
      const pick = scheduler.pick(turn < 30 ? [begun, b] : [a, b])!
      scheduler.took!(pick, one())
      return pick
    })
    expect(picked.slice(0, 8)).toEqual(Array(8).fill(begun))
    expect(picked.slice(0, 10)).toContain(b)
    expect(picked.filter((pick) => pick === b)).toHaveLength(30)
  })

  test('one with a job now and then has no more than its share', () => {
    const scheduler = fair()
    let [ofB, all] = [0, 0]
    for (let turn = 0; turn < 3_000; turn += 1) {
      // It pushes a job as soon as its last one has begun, after a pause of one turn.
      const pick = scheduler.pick(turn % 2 ? [a, b] : [a])!
      scheduler.took!(pick, one())
      ofB += Number(pick === b)
      all += 1
    }
    expect(ofB / all).toBeLessThan(0.51)
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('no such tenant')
      },
    ],
    ['gives no number', () => 'x' as never],
    ['gives 0', () => 0],
    ['gives what is beyond 1,000', () => 1_001],
    [
      'is async',
      async () => {
        throw new Error('later')
      },
    ],
  ])('a weight function that %s: the tenant counts as 1, which is told once', (_, broken) => {
    const scheduler = fair({ weight: (tenant) => (tenant === 'bad' ? (broken() as number) : 1) })
    const problems: unknown[] = []
    const taking: Scheduler = {
      pick: scheduler.pick,
      took(pick, jobs) {
        try {
          scheduler.took!(pick, jobs)
        } catch (error) {
          problems.push(error)
        }
      },
    }
    const share = shares(taking, [a, b], (pick) => jobsOf(pick === a ? 'bad' : 'good'), 1_000)
    expect(share(a)).toBeCloseTo(0.5, 2)
    expect(problems).toEqual([
      expect.objectContaining({
        code: 'LOCKSTEP_BAD_OPTION',
        message: expect.stringMatching(/^fair: the weight of tenant "bad" .*: it counts as 1$/),
      }),
    ])
  })

  test('other options are refused', () => {
    expect(() => fair({ weight: 3 } as never)).toThrow('fair: weight must be a function of the tenant, not 3')
    expect(() => fair({ wieght: () => 1 } as never)).toThrow('fair: unknown option "wieght"')
    expect(() => fair(null as never)).toThrow(/^fair: the options must be an object/)
  })

  test('seq: tenants have turns as lanes do; lag and strict: they are all of lane 0', () => {
    const all = [a, b, candidate('q', 1)]
    const turns = seq()
    expect(new Set(Array.from({ length: 3 }, () => turns.pick(all)))).toEqual(new Set(all))
    const late = { ...candidate('q', 0, -9), lag: 5 }
    for (const scheduler of [lag(), strict(['q'])]) expect(scheduler.pick([...all, late])).toBe(late)
  })

  test('weighted: tenants have the same within lane 0', () => {
    const slow = candidate('q', 1)
    const scheduler = weightedBy({ q: { 0: 3, 1: 1 } }, seeded(1))
    const share = shares(scheduler, [a, b, c, slow], one, 20_000)
    expect(share(slow)).toBeCloseTo(0.25, 1.5)
    for (const each of [a, b, c]) expect(share(each)).toBeCloseTo(0.25, 1.5)
  })
})

describe('R13: weighted draws the lanes of a queue', () => {
  const lanes = [candidate('q', 0), candidate('q', 1), candidate('q', 2)]
  const weights = { q: { 0: 6, 1: 3, 2: 1 } }

  test('6, 3 and 1 are looked at in the orders of draws without replacement', () => {
    const scheduler = weightedBy(weights, seeded(7))
    const rounds = 60_000
    const orders = new Map<string, number>()
    for (let round = 0; round < rounds; round += 1) {
      let left = lanes
      const order: number[] = []
      while (left.length > 0) {
        const pick = scheduler.pick(left)!
        scheduler.took!(pick, one())
        order.push(pick.lane)
        left = left.filter((lane) => lane !== pick)
      }
      orders.set(order.join(), (orders.get(order.join()) ?? 0) + 1)
    }
    const expected = { '0,1,2': 45, '0,2,1': 15, '1,0,2': 25.7, '1,2,0': 4.3, '2,0,1': 6.7, '2,1,0': 3.3 }
    for (const [order, percent] of Object.entries(expected))
      expect((100 * orders.get(order)!) / rounds).toBeCloseTo(percent, -0.3)
  })

  test('each draw is by weight, whatever was drawn before', () => {
    const scheduler = weightedBy(weights, seeded(8))
    const after = new Map(lanes.map((lane) => [lane, { all: 0, fast: 0 }]))
    let last: Candidate | undefined
    for (let turn = 0; turn < 60_000; turn += 1) {
      const pick = scheduler.pick(lanes)!
      scheduler.took!(pick, one())
      if (last) {
        after.get(last)!.all += 1
        after.get(last)!.fast += Number(pick.lane === 0)
      }
      last = pick
    }
    for (const { all, fast } of after.values()) expect(fast / all).toBeCloseTo(0.6, 1.3)
  })

  test('by jobs, however large the batches of each are', () => {
    const sizes = [1, 7, 50]
    const share = shares(
      weightedBy(weights, seeded(9)),
      lanes,
      ({ lane }) => jobsOf(null, sizes[lane]!),
      100_000,
    )
    for (const [lane, expected] of [0.6, 0.3, 0.1].entries())
      expect(share(lanes[lane]!)).toBeCloseTo(expected, 1.5)
  })

  test('a slow lane goes at full speed while the fast ones are empty, and has no debt when they come back', () => {
    const scheduler = weightedBy(weights, seeded(10))
    const [fast, , slow] = lanes as [Candidate, Candidate, Candidate]
    for (let turn = 0; turn < 10_000; turn += 1) {
      expect(scheduler.pick([slow])).toBe(slow)
      scheduler.took!(slow, jobsOf(null, 100))
    }
    const share = shares(scheduler, [fast, slow], one, 14_000)
    expect(share(slow)).toBeCloseTo(1 / 7, 1.3)
  })

  test('a lane that comes and goes has its share of the draws at which it is there', () => {
    const scheduler = weightedBy(weights, seeded(11))
    const [fast, , slow] = lanes as [Candidate, Candidate, Candidate]
    let slows = 0
    for (let turn = 0; turn < 60_000; turn += 1) {
      const pick = scheduler.pick(turn % 3 === 0 ? [fast, slow] : [fast])!
      scheduler.took!(pick, one())
      slows += Number(pick === slow)
    }
    expect(slows / 20_000).toBeCloseTo(1 / 7, 1.3)
  })

  test('a lane that is due and may not be picked keeps its turns', () => {
    const scheduler = weightedBy({ q: { 0: 1, 1: 1 } }, seeded(12))
    const [other, lane] = [candidate('q', 0), candidate('q', 1)]
    for (let turn = 0; turn < 100; turn += 1) scheduler.took!(scheduler.pick([other], [lane])!, one())
    const picked = Array.from({ length: 50 }, () => {
      const pick = scheduler.pick([other, lane])!
      scheduler.took!(pick, one())
      return pick
    })
    expect(picked.filter((pick) => pick === lane).length).toBeGreaterThan(40)
  })
})
