import { describe, expect, test } from 'vitest'
import { defaultRetryIn, defineQueue } from '../../src/index.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import { ServerClock } from '../../src/worker/server-clock.ts'
import { type Lane, Shard, Timetable } from '../../src/worker/timetable.ts'

const served = { queueId: 1, queue: defineQueue('timed') }
const NOTHING: Claim = { rounds: [], head: null, passed: false }

function taken(performIn: number, id: string, head: number | null): Claim {
  return { rounds: [{ performIn, id } as Round], head, passed: false }
}

describe('P7: the cursor of a lane', () => {
  test('stands behind what was taken last', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    lane.claimBegins()
    lane.claimEnded(taken(100, 'b', 300), 1_000)
    expect(lane.cursor).toEqual({ after: 100, afterId: 'b' })
    expect(lane.head).toBe(300)
  })

  test('P8: goes back when an earlier job is told of, and not for a later one', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    lane.claimBegins()
    lane.claimEnded(taken(100, 'b', null), 1_000)
    lane.notice(101)
    expect(lane.cursor).toEqual({ after: 100, afterId: 'b' })
    lane.notice(100)
    expect(lane.cursor.after).toBeLessThan(100)
    expect(lane.head).toBe(100)
  })

  test('P8: goes back after a claim too, for what was told of while it was under way', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    lane.claimBegins()
    lane.notice(50)
    lane.claimEnded(taken(100, 'b', 300), 1_000)
    expect(lane.cursor.after).toBeLessThan(50)
    expect(lane.head).toBe(50)
  })

  test('P7: a due job that is not to be had is asked for ever more rarely, but soon again', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    const pauses = Array.from({ length: 12 }, () => {
      lane.claimBegins()
      lane.claimEnded({ rounds: [], head: 500, passed: false }, 1_000)
      return lane.head - 1_000
    })
    expect(pauses.slice(0, 3)).toEqual([2_000, 4_000, 8_000])
    expect(pauses.at(-1)).toBe(200_000)
    lane.claimBegins()
    lane.claimEnded(NOTHING, 1_000)
    expect(lane.head).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('P8: a job that claims pass over', () => {
  const passing = (head: number): Claim => ({ ...taken(100, 'b', head), passed: true })
  const claim = (lane: Lane, answer: Claim) => {
    lane.claimBegins()
    lane.claimEnded(answer, 1_000)
  }

  test('is looked for once more, and then to be waited for, while the cursor goes on', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    claim(lane, passing(50))
    expect(lane.overdue).toBeUndefined()
    expect(lane.cursor.after).toBeLessThan(50)
    expect(lane.head).toBe(50)
    claim(lane, passing(50))
    expect(lane.overdue).toBe(50)
    expect(lane.cursor).toEqual({ after: 100, afterId: 'b' })
  })

  test('is to be waited for too where claims bring nothing, but not while it is yet to come', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    for (const head of [2_000, 2_000, 500]) claim(lane, { rounds: [], head, passed: false })
    expect(lane.overdue).toBeUndefined()
    claim(lane, { rounds: [], head: 500, passed: false })
    expect(lane.overdue).toBe(500)
  })

  test('is another one each time where each time another is passed over', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    for (const head of [50, 60, 50]) claim(lane, passing(head))
    expect(lane.overdue).toBeUndefined()
    claim(lane, taken(100, 'b', 300))
    claim(lane, passing(50))
    expect(lane.overdue).toBeUndefined()
  })

  test('makes its lane due when it was brought, until it is taken', () => {
    const lane = new Shard(served, 0, undefined).lane(0)
    const { rounds } = taken(100, 'b', null)
    lane.brought = { processId: 1, rounds }
    expect(lane.head).toBe(100)
    expect(lane.takeBrought()).toEqual({ processId: 1, rounds })
    expect(lane.takeBrought()).toBeUndefined()
    expect(lane.head).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('a timetable', () => {
  const clock = new ServerClock()
  clock.set(1_000_000, performance.now(), performance.now())

  test('shows a slot what is due in shards that are free and its own', () => {
    const timetable = new Timetable(clock)
    const shards = [undefined, undefined, undefined, 0, 1].map(
      (slot, shard) => new Shard(served, shard, slot),
    )
    for (const shard of shards) {
      timetable.add(shard)
      timetable.notice({ queueId: 1, shard: shard.shard, lane: 0 }, 5)
    }
    shards[0]!.busy = true
    shards[1]!.leaving = true
    expect(timetable.due(0).map(({ shard }) => shard)).toEqual([2, 3])
    expect(timetable.due(1).map(({ shard }) => shard)).toEqual([2, 4])
    expect(timetable.untilNext(0)).toBe(0)
    timetable.clear()
    expect(timetable.due(0)).toEqual([])
  })

  test('P8: shows what is to come as a time to wait, not as due', () => {
    const timetable = new Timetable(clock)
    timetable.add(new Shard(served, 0, undefined))
    expect(timetable.notice({ queueId: 1, shard: 7, lane: 0 }, 5)).toBe(false)
    expect(timetable.untilNext(0)).toBe(Number.POSITIVE_INFINITY)
    timetable.notice({ queueId: 1, shard: 0, lane: 3 }, clock.now() + 60_000_000)
    expect(timetable.due(0)).toEqual([])
    expect(timetable.untilNext(0)).toBeGreaterThan(59_000)
    expect(timetable.untilNext(0)).toBeLessThanOrEqual(60_000)
  })
})

test('R8: the default retryIn is n⁴ + 15 + random(0..29)·(n + 1) seconds', () => {
  for (const n of [0, 1, 2, 24]) {
    const seconds = Array.from({ length: 500 }, () => defaultRetryIn(n) - n ** 4 - 15)
    const draws = seconds.map((extra) => extra / (n + 1))
    expect(draws.every((draw) => Number.isInteger(draw) && draw >= 0 && draw <= 29)).toBe(true)
    expect(new Set(draws).size).toBeGreaterThan(20)
  }
})

test('R8: defaults are 16 shards, batches of 1 and 25 retries', () => {
  expect(served.queue).toMatchObject({
    shards: 16,
    batchSize: 1,
    maxRetryCount: 25,
    maxCrashes: 3,
    retryIn: defaultRetryIn,
    maxPayloads: undefined,
    timeout: undefined,
    transactional: false,
  })
})
