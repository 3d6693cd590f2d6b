import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import type { Round } from '../../src/store/claim.ts'
import { Lateness } from '../../src/worker/discovery/lateness.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('a look starts 250 ms before the cursor, twice the lateness seen of late, and two seconds at most', () => {
  const lateness = new Lateness()
  expect(lateness.span(0)).toBe(250_000)
  lateness.note(100_000, 0)
  expect(lateness.span(1)).toBe(250_000)
  lateness.note(400_000, 1_000)
  expect(lateness.span(1_001)).toBe(800_000)
  lateness.note(50_000, 2_000)
  expect(lateness.span(2_001)).toBe(800_000)
  expect(lateness.span(10_999)).toBe(800_000)
  expect(lateness.span(30_000)).toBe(250_000)
  lateness.note(60_000_000, 31_000)
  expect(lateness.span(31_001)).toBe(2_000_000)
})

test('what is late again and again is never forgotten, however long ago the latest was', () => {
  const lateness = new Lateness()
  lateness.note(900_000, 0)
  for (let now = 500; now < 60_000; now += 500) {
    lateness.note(600_000, now)
    expect(lateness.span(now + 1)).toBeGreaterThanOrEqual(1_200_000)
  }
})

test('a look begins before the cursor, and at the beginning where nothing was taken yet', () => {
  const lane = new Shard(new ServedQueue(defineQueue('late'), 1), 0).lane(0)
  expect(lane.before(250_000)).toEqual({ after: null, afterId: '' })
  lane.claimBegins(2_000_000)
  lane.claimEnded(
    { rounds: [{ performIn: 1_000_000, id: 'a' } as Round], head: null, passed: false },
    2_000_000,
  )
  expect(lane.before(250_000)).toEqual({ after: 750_000, afterId: '' })
  expect(lane.latenessOf(900_000)).toBe(100_000)
  expect(lane.latenessOf(1_100_000)).toBe(0)
})

test('P7: a job that claims have just passed over is no news to a look, and is asked for again, ever more rarely', () => {
  const lane = new Shard(new ServedQueue(defineQueue('late'), 1), 0).lane(0)
  const pass = (now: number) => {
    lane.claimBegins(now)
    lane.claimEnded({ rounds: [{ performIn: 100, id: 'b' } as Round], head: 50, passed: true }, now)
  }
  pass(1_000)
  expect(lane.sight(50, 1_000)).toBe(false)
  expect(lane.head).toBe(50)
  for (const pause of [4_000, 8_000, 16_000]) {
    pass(2_000)
    expect(lane.overdue).toBe(50)
    const { cursor } = lane
    lane.sight(50, 1_999 + pause)
    expect(lane.cursor).toBe(cursor)
    lane.sight(50, 2_000 + pause)
    expect(lane.cursor.after).toBeLessThan(50)
  }
})

test('P8: what commits some time after its push, which nobody was told of, is found before the next full look', async () => {
  const queue = env.queue({ shards: 1, perform() {} })
  const worker = await env.work({ queues: [queue], slots: 2, poll: 3_600_000 })
  await env.idle(queue)
  const late = next(worker, 'completed', ({ ids }) => ids.some((id) => id.startsWith('late')))
  let isFound = false
  late.then(() => (isFound = true)).catch(() => {})
  const producer = await env.session()
  // Looks start 250 ms before the cursor, and a slow machine may take that long until the next look. If looks started
  // at the cursor, none of the tries would find the job: three jobs pushed later have been claimed each time.
  for (let turn = 0; !isFound && turn < 3; turn += 1) {
    await producer.query('BEGIN')
    await producer.query('SET LOCAL lockstep.wake = off')
    await producer.query('SELECT lockstep.enqueue($1, $2)', [queue.name, `late ${turn}`])
    for (const id of [`a ${turn}`, `b ${turn}`, `c ${turn}`]) {
      const completed = next(worker, 'completed', ({ ids }) => ids.includes(id))
      await env.lockstep.enqueue(queue, { id })
      await completed
    }
    await producer.query('COMMIT')
    // Many wake-ups about jobs of the far future make the worker look by itself, and traffic keeps it doing so.
    await producer.query(
      `SELECT lockstep.wake(queue_id, ARRAY[lockstep.wake_token(0, 0::smallint, clock_timestamp() + n * interval '1 day')])
       FROM lockstep.queues, generate_series(1, 40) n WHERE name = $1`,
      [queue.name],
    )
    const sent: Promise<unknown>[] = []
    const push = () => sent.push(env.lockstep.enqueue(queue, { id: `d ${Math.random()}` }))
    const traffic = setInterval(push, 5)
    await Promise.race([late, pause(1_000)]).finally(() => clearInterval(traffic))
    // If a push were heard of only in the next turn, the worker would look for it, and find that turn's late job along
    // the way.
    await Promise.all(sent)
    await eventually(async () => expect(await env.jobs(queue)).toBeLessThanOrEqual(turn + 1))
  }
  // This is within five seconds of the first try. After five seconds of looking by itself, the worker does a full look.
  expect(isFound).toBe(true)
})
