import { describe, expect, test, vi } from 'vitest'
import { Instruments } from '../../src/instruments.ts'
import { Database } from '../../src/postgres/database.ts'
import type { Queue } from '../../src/queue.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { advance } from '../../src/testing/index.ts'
import { Throttled } from '../../src/worker/maintenance/throttled.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const fairness = {
  window: 3_600,
  rules: [
    { over: 2, per: 600, lane: 1 },
    { over: 4, per: 60, lane: 2 },
  ],
}

async function push(queue: Queue, tenant: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await env.lockstep.enqueue(queue, { id: `${tenant}${n}`, tenant })
}

/** What is told of a queue whose first shards are held, one look after the other. */
async function looker(queue: Queue, shards: readonly number[]) {
  const database = new Database(env.pool, 'lockstep')
  const queueId = await ensureQueue(database, queue.name, queue.shards)
  await replaceSetting(database, 'fairness', [{ queueId, value: queue.fairness }])
  const timetable = new Timetable(new ServerClock())
  const served = new ServedQueue(queue, queueId)
  for (const shard of shards) timetable.add(new Shard(served, shard))
  const told: string[] = []
  const instrument = {
    throttle: vi.fn(({ tenant, lane }) => void told.push(`${tenant} to ${lane}`)),
    unthrottle: vi.fn(({ tenant, lane }) => void told.push(`${tenant} no more to ${lane}`)),
  }
  const instruments = new Instruments([instrument], env.logger)
  const throttled = new Throttled({ logger: env.logger, instruments, ledQueues: () => timetable.ledQueues })
  const look = async () => {
    await throttled.run(database)
    return told.splice(0).sort()
  }
  return { look, throttled }
}

describe('which tenants rules throttle', () => {
  test('is told when it begins, when another rule decides, and when it ends', async () => {
    const queue = env.queue({ shards: 2, fairness, perform() {} })
    await push(queue, 'a', 2)
    await push(queue, 'b', 1)
    const { look } = await looker(queue, [0])
    // The next job of the first one would be its third.
    expect(await look()).toEqual(['a to 1'])
    expect(await look()).toEqual([])
    await push(queue, 'a', 2)
    await push(queue, 'b', 3)
    expect(await look()).toEqual(['a no more to 1', 'a to 2', 'b to 2'])
    await advance(env.lockstep, queue, 61_000)
    expect(await look()).toEqual(['a no more to 2', 'a to 1', 'b no more to 2', 'b to 1'])
    await advance(env.lockstep, queue, 600_000)
    expect(await look()).toEqual(['a no more to 1', 'b no more to 1'])
    expect(await look()).toEqual([])
  })

  test('is not told of more than a thousand, and none of those it was told of is cut off by others', async () => {
    const queue = env.queue({ shards: 1, fairness, perform() {} })
    await push(queue, 'z', 2)
    const { look } = await looker(queue, [0])
    expect(await look()).toEqual(['z to 1'])
    const tenants = Array.from({ length: 1_001 }, (_, n) => `a${n}`)
    const pushes = tenants.flatMap((tenant) => [1, 2].map((n) => ({ id: `${tenant} ${n}`, tenant })))
    await env.lockstep.enqueue(queue, pushes)
    const told = await look()
    expect(told).toHaveLength(999)
    expect(told.filter((one) => one.includes('z'))).toEqual([])
    expect(await look()).toEqual([])
  })

  test('is told by one that has just got the first shard: of those who have pushed within a minute, and of others when they push', async () => {
    const queue = env.queue({ shards: 1, fairness, perform() {} })
    await push(queue, 'silent', 4)
    await looker(queue, [0])
    await advance(env.lockstep, queue, 61_000)
    await push(queue, 'a', 4)
    const { look } = await looker(queue, [0])
    expect(await look()).toEqual(['a to 2'])
    await push(queue, 'silent', 1)
    expect(await look()).toEqual(['silent to 1'])
  })

  test('is the business of the worker that holds the first shard', async () => {
    const queue = env.queue({ shards: 2, fairness, perform() {} })
    const holder = await looker(queue, [0, 1])
    const other = await looker(queue, [1])
    expect(holder.throttled.isDue()).toBe(true)
    expect(other.throttled.isDue()).toBe(false)
  })

  test('is told by a worker within ten seconds or so', { tags: 'slow', timeout: 30_000 }, async () => {
    const queue = env.queue({ shards: 1, fairness, perform() {} })
    const worker = await env.work({ queues: [queue] })
    const throttled = next(worker, 'throttled', () => true, 25_000)
    await push(queue, 'a', 4)
    expect(await throttled).toEqual({
      queue: queue.name,
      tenant: 'a',
      until: null,
      lane: expect.any(Number),
    })
  })
})
