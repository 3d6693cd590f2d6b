import { expect, test } from 'vitest'
import { ConsumedQueue } from '../../src/consumer/consumed-queue.ts'
import { defineQueue } from '../../src/index.ts'
import type { Claim } from '../../src/store/claim.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { WithheldLanes } from '../../src/worker/schedule/withheld-lanes.ts'

const SECOND = 1_000_000

/** What a claim says: `until`: of the queue's own limit, where it met that. */
function claim(rounds: number, until?: number | null): Pick<Claim, 'rounds' | 'waits'> {
  const limits = until === undefined ? [] : [{ tenant: null, from: 0, after: null, afterId: '', until }]
  return { rounds: Array(rounds).fill({}), waits: limits.length > 0 ? { limits } : undefined } as never
}

function full(until: number | null = null): WithheldLanes {
  const lanes = new WithheldLanes()
  lanes.met(claim(0, until), SECOND, SECOND)
  expect(lanes.isFull).toBe(true)
  return lanes
}

test('a full queue is asked once for each round that ends, and once more each time the pause is over', () => {
  const lanes = full()
  lanes.free(2, undefined, 2 * SECOND)
  for (const left of [1, 0]) {
    lanes.asked()
    lanes.met(claim(1), 3 * SECOND, 3 * SECOND)
    expect(lanes.places).toBe(left)
  }
  lanes.askOne(4 * SECOND)
  expect(lanes.places).toBe(1)
  // Nothing may come of that.
  expect(lanes.fullUntil).toBeLessThanOrEqual(4.2 * SECOND)
})

test('all of it is asked again when a trial has found a place, though rounds have ended meanwhile', () => {
  const lanes = full()
  lanes.askOne(2 * SECOND)
  lanes.asked()
  lanes.free(1, undefined, 3 * SECOND)
  lanes.met(claim(1), 2 * SECOND, 4 * SECOND)
  expect(lanes.places).toBe(Number.POSITIVE_INFINITY)
})

test('where a rate has no room, rounds that end leave none', () => {
  const lanes = full(60 * SECOND)
  lanes.free(3, undefined, 2 * SECOND)
  expect(lanes.isFull).toBe(true)
  lanes.askOne(6 * SECOND)
  lanes.asked()
  lanes.met(claim(0), 6 * SECOND, 6 * SECOND)
  expect(lanes.isFull).toBe(false)
})

test('a consumer looks for nothing while nobody waits, whatever is due', () => {
  const timetable = new Timetable(new ServerClock())
  const queue = new ConsumedQueue(defineQueue('queue'), 1, 1)
  timetable.add(queue.shards[0]!)
  timetable.notice({ queueId: 1, shard: 0, lane: 0 }, SECOND)
  expect(timetable.hasWaiting).toBe(false)
  queue.begins()
  expect(timetable.hasWaiting).toBe(true)
  timetable.clear()
})
