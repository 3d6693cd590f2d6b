import { expect, test } from 'vitest'
import { connectionConfig } from '../../src/postgres/connection.ts'
import { Database } from '../../src/postgres/database.ts'
import { compare } from '../../src/store/comparison.ts'
import { ServedQueues } from '../../src/worker/assignment/served-queues.ts'
import { ShardLocks } from '../../src/worker/assignment/shard-locks.ts'
import { Looks } from '../../src/worker/discovery/looks.ts'
import { Poller } from '../../src/worker/discovery/poller.ts'
import { Bell } from '../../src/worker/lifecycle/bell.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { setClock } from '../support/server-clock.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const POLL = 1_000

/** A poller that comes to rest, the only one of its queue. */
async function resting(hears: () => boolean = () => true) {
  const queue = env.queue({ shards: 1, perform() {} })
  const database = new Database(env.pool, 'lockstep')
  const [row] = await env.sql<{ id: number }>('SELECT lockstep.create_queue($1, 1) AS id', [queue.name])
  const served = new ServedQueue(queue, row!.id)
  const clock = new ServerClock()
  setClock(clock, Date.now() * 1_000)
  const timetable = new Timetable(clock)
  timetable.add(new Shard(served, 0))
  // A slot that never works, so that what is found stays in the timetable.
  const sleep = () => void timetable.sleep(0, new Bell()).then(sleep)
  sleep()
  const locks = new ShardLocks(
    connectionConfig(env.connectionString, 'locks'),
    'lockstep',
    env.logger,
    () => {},
  )
  await locks.start()
  env.later(() => locks.stop())
  const poller = new Poller({
    database,
    timetable,
    looks: new Looks({ database, timetable, clock }),
    locks,
    logger: env.logger,
    queues: new ServedQueues(database, env.logger, [served]),
    poll: POLL,
    hears,
    processId: () => 1,
    onFailure: () => {},
  })
  await poller.start()
  env.later(() => poller.stop())
  await env.idle(queue)
  const push = (id: string) =>
    env.sql(`SELECT set_config('lockstep.wake', 'off', true), lockstep.enqueue($1, $2)`, [queue.name, id])
  const knows = () => timetable.hasDue
  return { poller, database, push, knows, queue }
}

test('P8: a full look that is due at rest goes along with a comparison, and what it finds is known', async () => {
  const { poller, database, push, knows } = await resting()
  await push('a')
  const shards = await eventually(() => {
    const due = poller.fullScanAlong()
    expect(due).toHaveLength(1)
    return due
  })
  expect(poller.fullScanAlong()).toEqual([])
  const { heads } = await compare(database, { names: [], processId: 1, shards })
  expect(heads).toMatchObject([{ ...shards[0], lane: 0 }])
  poller.fullScanAnswered(heads, 1)
  expect(knows()).toBe(true)
})

test('P8: one that is asked for while another goes along is made, whatever that one answers', async () => {
  const { poller, push, knows } = await resting()
  await eventually(() => expect(poller.fullScanAlong()).toHaveLength(1))
  await push('a')
  poller.fullScanSoon()
  poller.fullScanAnswered([], 1)
  await eventually(() => expect(knows()).toBe(true), POLL / 2)
})

test('P8: one that goes along in vain is made by itself', async () => {
  const { poller, push, knows } = await resting()
  await eventually(() => expect(poller.fullScanAlong()).toHaveLength(1))
  await push('a')
  poller.fullScanFailed()
  await eventually(() => expect(knows()).toBe(true), POLL / 2)
})

test('one that took long goes by itself: comparisons must not', { tags: 'slow' }, async () => {
  const { poller } = await resting()
  await eventually(() => expect(poller.fullScanAlong()).toHaveLength(1))
  poller.fullScanAnswered([], POLL)
  const later = performance.now() + 1.5 * POLL
  await eventually(() => {
    expect(poller.fullScanAlong()).toEqual([])
    expect(performance.now()).toBeGreaterThan(later)
  })
})

test('P8: where wake-ups are not heard, a worker looks by itself at each poll interval', async () => {
  const { poller, push, knows } = await resting(() => false)
  const rested = performance.now() + 2.5 * POLL
  await eventually(() => expect(performance.now()).toBeGreaterThan(rested))
  expect(poller.fullScanAlong()).toEqual([])
  await push('a')
  await eventually(() => expect(knows()).toBe(true), 1.5 * POLL)
})
