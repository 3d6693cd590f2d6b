import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { defaultRetryIn, defineQueue } from '../../src/index.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import { Bell } from '../../src/worker/lifecycle/bell.ts'
import type { Lane } from '../../src/worker/schedule/lane.ts'
import { Portion } from '../../src/worker/schedule/portion.ts'
import { LONGEST_PREFETCHED } from '../../src/worker/schedule/prefetch.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { setClock } from '../support/server-clock.ts'

const served = new ServedQueue(defineQueue('timed'), 1)
const NOTHING: Claim = { rounds: [], head: null, passed: false }

function taken(performIn: number, id: string, head: number | null): Claim {
  return { rounds: [{ performIn, id } as Round], head, passed: false }
}

function newLane(): Lane {
  return new Shard(served, 0).lane(0)
}

const RETENTION = { processId: 1, release() {} }

test('P8: what is released of a lane takes along what is due after it', () => {
  const lane = newLane()
  const portions = [100, 200].map(
    (performIn) => new Portion(RETENTION, taken(performIn, 'b', null).rounds, 1),
  )
  for (const portion of portions) lane.bring(portion)
  expect(lane.portionsFrom(portions[0]!)).toEqual(portions)
  expect(lane.portionsFrom(portions[1]!)).toEqual([portions[1]])
})

describe('P7: the cursor of a lane', () => {
  test('stands behind what was taken last', () => {
    const lane = newLane()
    lane.claimBegins(1_000)
    lane.claimEnded(taken(100, 'b', 300), 1_000)
    expect(lane.cursor).toEqual({ after: 100, afterId: 'b' })
    expect(lane.head).toBe(300)
  })

  test('P8: goes back when an earlier job is told of, and not for a later one', () => {
    const lane = newLane()
    lane.claimBegins(1_000)
    lane.claimEnded(taken(100, 'b', null), 1_000)
    lane.notice(101)
    expect(lane.cursor).toEqual({ after: 100, afterId: 'b' })
    lane.notice(100)
    expect(lane.cursor.after).toBeLessThan(100)
    expect(lane.head).toBe(100)
  })

  test('P8: goes back after a claim too, for what was told of while it was under way', () => {
    const lane = newLane()
    lane.claimBegins(1_000)
    lane.notice(50)
    lane.claimEnded(taken(100, 'b', 300), 1_000)
    expect(lane.cursor.after).toBeLessThan(50)
    expect(lane.head).toBe(50)
  })

  test('R10: is asked for more at once after a job whose process has died', () => {
    const lane = newLane()
    const rescued = { performIn: 100, id: 'b', rescued: true } as Round
    lane.claimBegins(1_000)
    lane.claimEnded({ rounds: [rescued], head: 300, passed: false }, 200)
    expect([lane.head, lane.cursor]).toEqual([100, { after: 100, afterId: 'b' }])
    lane.claimBegins(1_000)
    lane.claimEnded({ rounds: [], head: 300, passed: false }, 200)
    expect(lane.head).toBe(300)
  })

  test('P7: a due job that is not to be had is asked for ever more rarely, but soon again', () => {
    const lane = newLane()
    const pauses = Array.from({ length: 12 }, () => {
      lane.claimBegins(10_000)
      lane.claimEnded({ rounds: [], head: 500, passed: false }, 10_000)
      return lane.head - 10_000
    })
    expect(pauses.slice(0, 3)).toEqual([2_000, 4_000, 8_000])
    expect(pauses.at(-1)).toBe(200_000)
    lane.claimBegins(10_000)
    lane.claimEnded(NOTHING, 10_000)
    expect(lane.head).toBe(Number.POSITIVE_INFINITY)
  })

  test('P8: the pauses of one job are not those of the next, nor of one that is told of meanwhile', () => {
    const lane = newLane()
    for (let claims = 0; claims < 12; claims += 1) {
      lane.claimBegins(10_000)
      lane.claimEnded({ rounds: [], head: 500, passed: false }, 10_000)
    }
    lane.claimBegins(10_000)
    lane.notice(700)
    lane.claimEnded({ rounds: [], head: 500, passed: false }, 10_000)
    expect(lane.head).toBe(700)
    lane.claimBegins(10_000)
    lane.claimEnded({ rounds: [], head: 700, passed: false }, 10_000)
    expect(lane.head - 10_000).toBe(2_000)
  })

  test('P8: a job that is barely due is asked for again at once: by the server’s clock it may not have been', () => {
    const lane = newLane()
    for (const [head, expected] of [
      [9_500, 9_500],
      [10_200, 10_200],
      [9_000, 12_500],
    ] as const) {
      lane.claimBegins(10_000)
      lane.claimEnded({ rounds: [], head, passed: false }, 10_500)
      expect(lane.head).toBe(expected)
    }
  })
})

describe('P8: a job that claims pass over', () => {
  const passing = (head: number): Claim => ({ ...taken(100, 'b', head), passed: true })
  const claim = (lane: Lane, answer: Claim) => {
    lane.claimBegins(2_000)
    lane.claimEnded(answer, 2_000)
  }

  test('is looked for once more, and then to be waited for, while the cursor goes on', () => {
    const lane = newLane()
    claim(lane, passing(50))
    expect(lane.overdue).toBeUndefined()
    expect(lane.cursor.after).toBeLessThan(50)
    expect(lane.head).toBe(50)
    claim(lane, passing(50))
    expect(lane.overdue).toBe(50)
    expect(lane.cursor).toEqual({ after: 100, afterId: 'b' })
  })

  test('is to be waited for too where claims bring nothing, but not while it is yet to come', () => {
    const lane = newLane()
    for (const head of [3_000, 3_000, 500]) claim(lane, { rounds: [], head, passed: false })
    expect(lane.overdue).toBeUndefined()
    claim(lane, { rounds: [], head: 500, passed: false })
    expect(lane.overdue).toBe(500)
  })

  test('is another one each time where each time another is passed over', () => {
    const lane = newLane()
    for (const head of [50, 60, 50]) claim(lane, passing(head))
    expect(lane.overdue).toBeUndefined()
    claim(lane, taken(100, 'b', 300))
    claim(lane, passing(50))
    expect(lane.overdue).toBeUndefined()
  })

  test('makes its lane due when it was brought, before what is prefetched, until it is taken', () => {
    const lane = newLane()
    const rounds = (performIn: number) => taken(performIn, 'b', null).rounds
    const [hand, first] = [new Portion(RETENTION, rounds(200), 1), new Portion(RETENTION, rounds(100), 1)]
    lane.bring(hand)
    lane.bringFirst(first)
    expect(lane.head).toBe(100)
    expect(lane.portions).toEqual([first, hand])
    lane.drop(first)
    expect(lane.head).toBe(200)
    lane.drop(hand)
    expect(lane.head).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('what is prefetched of a lane', () => {
  const rounds = Array.from({ length: 4 }, (_, index) => ({ performIn: index, id: String(index) }) as Round)

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] })
  })
  afterEach(() => vi.useRealTimers())

  /**
   * Begins everything that a claim has brought, while more is due. Returns whether the next claim is sent when half of
   * it has begun.
   */
  function begin(lane: Lane): boolean {
    lane.claimBegins(1_000)
    lane.claimEnded({ rounds, head: 500, passed: false }, 1_000)
    const portion = new Portion(RETENTION, rounds, 4)
    lane.bring(portion)
    expect([lane.isLow(1_000), isBegun(lane)]).toEqual([false, false])
    lane.take(portion, 2)
    const isLow = lane.isLow(1_000)
    expect([isBegun(lane), lane.shard.served.prefetched.has(lane)]).toEqual([true, true])
    lane.take(portion, 2)
    expect([lane.portions, isBegun(lane), lane.shard.served.prefetched.has(lane)]).toEqual([[], false, false])
    return isLow
  }

  /** As the scheduler sees it, once the timetable has filed the lane. */
  function isBegun({ candidate }: Lane): boolean {
    candidate.update()
    return candidate.isBegun
  }

  test('is claimed ahead, unless its last turn took more than 0.8 of the time after which it would have gone back', () => {
    const lane = newLane()
    expect(begin(lane)).toBe(false)
    vi.advanceTimersByTime(0.8 * LONGEST_PREFETCHED)
    expect(begin(lane)).toBe(true)
    vi.advanceTimersByTime(0.8 * LONGEST_PREFETCHED + 1)
    expect(begin(lane)).toBe(false)
  })
})

describe('a portion', () => {
  const rounds = (...marks: string[]) => marks.map((id) => ({ id, toLoad: id.startsWith('L') }) as Round)
  const ids = (batch: readonly Round[]) => batch.map(({ id }) => id).join(' ')

  test('R9: gives batches in order, and what is to be loaded alone', () => {
    const portion = new Portion(RETENTION, rounds('a', 'b', 'c', 'L1', 'L2', 'd'), 6)
    const batches = Array.from({ length: 5 }, () => ids(portion.take(2)))
    expect(batches).toEqual(['a b', 'c', 'L1', 'L2', 'd'])
    expect(portion.isEmpty).toBe(true)
  })

  test('has ended when all of it has, begun or released', () => {
    const portion = new Portion(RETENTION, rounds('a', 'b', 'c'), 3)
    const batch = portion.take(1)
    expect(ids(portion.takeRest())).toBe('b c')
    expect(portion.ended(2)).toBe(false)
    expect(portion.ended(batch.length)).toBe(true)
  })
})

describe('a timetable', () => {
  const clock = new ServerClock()
  setClock(clock, 1_000_000)
  const LATER = () => clock.now() + 60_000_000

  /** A timetable with one queue of this many shards. The shards in `due` have a due job. */
  function open(shards: number, due: readonly number[], concurrency?: number) {
    const timetable = new Timetable(clock)
    const queue = new ServedQueue(defineQueue('timed', { concurrency }), 1)
    for (let shard = 0; shard < shards; shard += 1) timetable.add(new Shard(queue, shard))
    for (const shard of due) timetable.notice({ queueId: 1, shard, lane: 0 }, 5)
    return { timetable, queue, lane: (shard: number) => timetable.get(1, shard)!.lane(0) }
  }

  function begin(lane: Lane, isAwaited: boolean) {
    lane.claim = Promise.resolve()
    lane.waiting = Number(isAwaited)
    lane.claimBegins(1_000)
  }

  function end(lane: Lane, answer: Claim, now = clock.now()) {
    lane.claim = undefined
    lane.waiting = 0
    lane.claimEnded(answer, now)
  }

  /** The slots that woke, in order. */
  function sleepers(timetable: Timetable, ...slots: number[]) {
    const woken: number[] = []
    for (const slot of slots) void timetable.sleep(slot, new Bell()).then(() => woken.push(slot))
    return async () => {
      await new Promise(setImmediate)
      return woken
    }
  }

  test('shows a slot what is due in its shards, in the order of queues, shards and lanes', () => {
    const timetable = new Timetable(clock)
    const other = new ServedQueue(defineQueue('before'), 7, -1)
    const shards = [undefined, 0, 1].map((slot, shard) => new Shard(served, shard, slot))
    for (const shard of [...shards, new Shard(other, 0)]) timetable.add(shard)
    for (const { shard } of shards.toReversed()) timetable.notice({ queueId: 1, shard, lane: 3 }, 5)
    timetable.notice({ queueId: 1, shard: 0, lane: 1 }, 9)
    timetable.notice({ queueId: 7, shard: 0, lane: 0 }, 7)
    const shown = (slot: number) =>
      timetable.due(slot).map(({ queue, shard, lane }) => `${queue} ${shard}:${lane}`)
    expect(shown(0)).toEqual(['before 0:0', 'timed 0:1', 'timed 0:3', 'timed 1:3'])
    expect(shown(1)).toEqual(['before 0:0', 'timed 0:1', 'timed 0:3', 'timed 2:3'])
    expect(timetable.due(0).map(({ lag }) => lag > 0)).toEqual([true, true, true, true])
    timetable.remove(shards[0]!)
    expect(shown(0)).toEqual(['before 0:0', 'timed 1:3'])
    timetable.clear()
    expect(shown(0)).toEqual([])
  })

  test('P8: a lane that was seen in one shard is looked at in all of its queue, as long as they are few', () => {
    const { timetable, queue } = open(3, [])
    const other = new ServedQueue(defineQueue('other'), 2)
    timetable.add(new Shard(other, 0))
    expect(timetable.quietLanes).toHaveLength(4)
    timetable.notice({ queueId: 1, shard: 1, lane: 7 }, LATER())
    expect(timetable.quietLanes).toHaveLength(7)
    timetable.add(new Shard(queue, 3))
    expect(timetable.quietLanes).toHaveLength(9)
    for (let lane = 100; lane < 200; lane += 1) timetable.notice({ queueId: 1, shard: 0, lane }, LATER())
    expect(timetable.quietLanes).toHaveLength(1 + 4 * 16 + 100 - 14)
  })

  test('P8: the lanes of tenants are looked at in all shards, however many others there are', () => {
    const { timetable, queue } = open(2, [])
    for (let lane = 0; lane < 30; lane += 1) timetable.notice({ queueId: 1, shard: 0, lane }, LATER())
    const before = timetable.quietLanes.length
    expect([...timetable.queues]).toEqual([queue])
    for (let lane = -1; lane >= -32; lane -= 1) {
      expect(queue.mayMeetTenants).toBe(true)
      expect([timetable.meet(queue, lane), timetable.meet(queue, lane)]).toEqual([true, false])
    }
    expect(queue.mayMeetTenants).toBe(false)
    expect(timetable.quietLanes).toHaveLength(before + 2 * 32)
    timetable.add(new Shard(queue, 2))
    expect(timetable.quietLanes).toHaveLength(before + 2 * 32 + 32 + 16)
  })

  test('a lane of a tenant is shown as lane 0, and as the tenant’s', () => {
    const { timetable } = open(1, [0])
    for (const lane of [-5, 3]) timetable.notice({ queueId: 1, shard: 0, lane }, 5)
    const shown = timetable.due(0).map(({ lane, tenantLane }) => [lane, tenantLane])
    expect(shown).toEqual([
      [0, -5],
      [0, undefined],
      [3, undefined],
    ])
  })

  test('a lane is not due while it is claimed from, but for what is prefetched', () => {
    const { timetable, lane } = open(1, [0])
    begin(lane(0), true)
    timetable.file(lane(0))
    expect(timetable.due(0)).toEqual([])
    lane(0).bringFirst(new Portion(RETENTION, taken(3, 'a', null).rounds, 1))
    timetable.file(lane(0))
    expect(timetable.due(0)).toHaveLength(1)
  })

  test('a claim that nobody waits for may be waited for, by one slot that is awake', async () => {
    const { timetable, lane } = open(2, [0, 1])
    const woken = sleepers(timetable, 0)
    begin(lane(0), false)
    begin(lane(1), true)
    for (const shard of [0, 1]) timetable.file(lane(shard))
    expect(timetable.due(1)).toMatchObject([{ shard: 0, isClaimed: true }])
    expect(await woken()).toEqual([])
    lane(0).bring(new Portion(RETENTION, taken(3, 'a', null).rounds, 1))
    timetable.file(lane(0))
    expect(timetable.due(1)).toMatchObject([{ shard: 0, isClaimed: false }])
    expect(await woken()).toEqual([0])
  })

  test('a lane for whose claim slots wait is shown after what is due, if none of its queue and number is due', () => {
    const { timetable, lane } = open(2, [0, 1])
    const shown = () => timetable.due(0).map(({ shard, lane, waiting }) => ({ shard, lane, waiting }))
    begin(lane(0), true)
    end(lane(0), taken(3, 'a', 5), 2_000)
    begin(lane(0), true)
    timetable.file(lane(0))
    expect(shown()).toEqual([{ shard: 1, lane: 0, waiting: 0 }])
    timetable.notice({ queueId: 1, shard: 1, lane: 7 }, 5)
    // Of this lane there was no claim yet, so it isn't known whether there is more.
    begin(lane(1), true)
    timetable.file(lane(1))
    const other = { shard: 1, lane: 7, waiting: 0 }
    expect(shown()).toEqual([other, { shard: 0, lane: 0, waiting: 1 }])
    expect(timetable.due(0)[1]!.lag).toBeGreaterThan(1_000)
    lane(0).isStuck = true
    timetable.file(lane(0))
    expect(shown()).toEqual([other])
    begin(lane(0), true)
    timetable.file(lane(0))
    expect(shown()).toEqual([other, { shard: 0, lane: 0, waiting: 1 }])
    timetable.remove(lane(0).shard)
    expect(shown()).toEqual([other])
  })

  test('a lane of a paused queue is not shown, even if slots wait for its claim', () => {
    const admission = { notBefore: () => 0 }
    const timetable = new Timetable(clock, admission)
    const shard = new Shard(new ServedQueue(defineQueue('timed'), 1), 0)
    timetable.add(shard)
    const lane = shard.lane(0)
    begin(lane, true)
    end(lane, taken(3, 'a', 5), 2_000)
    begin(lane, true)
    timetable.file(lane)
    expect(timetable.due(0)).toHaveLength(1)
    admission.notBefore = () => Number.POSITIVE_INFINITY
    timetable.admissionChanged()
    expect(timetable.due(0)).toEqual([])
  })

  test('what comes while a lane is claimed from is due when the claim has ended', () => {
    const { timetable, lane } = open(1, [0])
    begin(lane(0), true)
    timetable.file(lane(0))
    timetable.notice({ queueId: 1, shard: 0, lane: 0 }, 4)
    expect(timetable.due(0)).toEqual([])
    end(lane(0), taken(5, 'a', null))
    timetable.file(lane(0))
    expect(timetable.due(0)).toHaveLength(1)
  })

  test('what becomes due wakes one slot for each lane, and none for what was known', async () => {
    const { timetable } = open(3, [])
    const woken = sleepers(timetable, 0, 1, 2)
    timetable.notice({ queueId: 1, shard: 1, lane: 0 }, LATER())
    expect(await woken()).toEqual([])
    timetable.notice({ queueId: 1, shard: 1, lane: 0 }, 5)
    expect(await woken()).toEqual([0])
    timetable.notice({ queueId: 1, shard: 2, lane: 0 }, 5)
    expect(await woken()).toEqual([0, 1])
  })

  test('a lane that is due already wakes a slot again, where it is told of again: no slot may have come for it', async () => {
    const { timetable } = open(1, [0])
    const woken = sleepers(timetable, 0)
    timetable.notice({ queueId: 1, shard: 0, lane: 0 }, 5)
    expect(await woken()).toEqual([0])
  })

  test('a lane that is being claimed wakes nobody until it has something', async () => {
    const { timetable, lane } = open(2, [0])
    const woken = sleepers(timetable, 0)
    begin(lane(0), false)
    timetable.file(lane(0))
    expect(await woken()).toEqual([])
    end(lane(0), { rounds: [], head: 5, passed: false }, 0)
    timetable.file(lane(0))
    expect(await woken()).toEqual([0])
  })

  test('P8: what is to come wakes a slot at its time', async () => {
    const { timetable } = open(1, [])
    const woken = sleepers(timetable, 0)
    const at = clock.now() + 30_000
    timetable.notice({ queueId: 1, shard: 0, lane: 0 }, at)
    expect(timetable.due(0)).toEqual([])
    expect(timetable.hasDue).toBe(false)
    await expect.poll(woken, { interval: 1 }).toEqual([0])
    expect(clock.now()).toBeGreaterThanOrEqual(at)
    expect(timetable.due(0)).toHaveLength(1)
  })

  test('concurrency: a queue at its bound is not shown, and wakes a slot when it has room', async () => {
    const { timetable, queue } = open(2, [0, 1], 1)
    expect(timetable.due(0)).toHaveLength(2)
    timetable.begins(queue)
    expect(timetable.due(1)).toEqual([])
    expect(timetable.hasDue).toBe(false)
    const woken = sleepers(timetable, 1)
    expect(timetable.couldTake).toBe(false)
    expect(await woken()).toEqual([])
    timetable.ends(queue)
    expect(await woken()).toEqual([1])
  })

  test('a fixed slot is woken for its shards alone', async () => {
    const timetable = new Timetable(clock)
    timetable.add(new Shard(served, 0, 1))
    const woken = sleepers(timetable, 0, 1)
    timetable.notice({ queueId: 1, shard: 0, lane: 0 }, 5)
    expect(await woken()).toEqual([1])
  })

  test('P8: news is what is earlier than what was known, of a shard of ours', () => {
    const { timetable } = open(1, [])
    expect(timetable.notice({ queueId: 1, shard: 7, lane: 0 }, 5)).toBe(false)
    expect(timetable.notice({ queueId: 1, shard: 0, lane: 3 }, 9)).toBe(true)
    expect(timetable.notice({ queueId: 1, shard: 0, lane: 3 }, 9)).toBe(false)
    expect(timetable.notice({ queueId: 1, shard: 0, lane: 3 }, 5)).toBe(true)
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
