import { describe, expect, test } from 'vitest'
import { allShards, byNode, dynamic, type Queue, type Splitter, type Worker } from '../../src/index.ts'
import type { QueueShards, ShardRef } from '../../src/worker/assignment/splitter.ts'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import { shardsHeld } from '../support/shards.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

function queueShards(shards: number, rest: Partial<QueueShards> = {}): QueueShards {
  const refs = Array.from({ length: shards }, (_, shard) => ({ queueId: 1, shard }))
  return { shards: refs, first: 0, processes: 1, rank: 0, same: true, holds: () => false, ...rest }
}

function taken(splitter: Splitter, of: QueueShards): ShardRef[] {
  const { wanted, quota } = splitter.share(of, 2)
  return wanted.slice(0, quota)
}

describe('R12: the default splitter', () => {
  test('gives element i of the list of all shards to slot i mod S', () => {
    const of = queueShards(5, { first: 3 })
    const { wanted, quota, slotOf } = allShards().share(of, 3)
    expect([wanted, quota]).toEqual([of.shards, 5])
    expect(of.shards.map(slotOf)).toEqual([0, 1, 2, 0, 1])
  })

  test('so a real worker serves each shard with one slot', async () => {
    const seen = new Map<string, Set<number>>()
    const queues = [env.queue({ shards: 3, perform() {} }), env.queue({ shards: 4, perform() {} })]
    const ids = Array.from({ length: 40 }, (_, index) => ({ id: index }))
    for (const queue of queues) await env.lockstep.enqueue(queue, ids)
    const worker = env.create({ queues, slots: 2, splitter: allShards() })
    worker.on('started', ({ queue, shard, slot }) => {
      const place = (queue === queues[0]!.name ? 0 : 3) + shard
      seen.set(`${place} mod 2`, (seen.get(`${place} mod 2`) ?? new Set()).add(slot))
    })
    await worker.start()
    await eventually(async () => expect(await env.jobs(queues[1]!)).toBe(0))
    await eventually(async () => expect(await env.jobs(queues[0]!)).toBe(0))
    expect(Object.fromEntries(seen)).toEqual(
      Object.fromEntries(Array.from({ length: 7 }, (_, place) => [`${place} mod 2`, new Set([place % 2])])),
    )
  })
})

describe('R12: byNode', () => {
  test('keeps the shards i with i mod K = k and gives those to slots in turn', () => {
    const of = queueShards(7, { first: 4 })
    const { wanted, quota, slotOf } = byNode(3, 1).share(of, 2)
    expect(wanted.map(({ shard }) => shard)).toEqual([0, 3, 6])
    expect(quota).toBe(3)
    expect(wanted.map(slotOf)).toEqual([1, 0, 1])
  })

  test('two nodes share a queue, whether both are there or not', async () => {
    const queue = env.queue({ shards: 5, perform() {} })
    const even = await env.work({ queues: [queue], splitter: byNode(2, 0) })
    expect(await shardsHeld(env, even.processId, queue)).toEqual([0, 2, 4])
    const odd = await env.work({ queues: [queue], splitter: byNode(2, 1) })
    expect(await shardsHeld(env, odd.processId, queue)).toEqual([1, 3])
    await odd.stop()
    expect(await shardsHeld(env, even.processId, queue)).toEqual([0, 2, 4])
  })
})

describe('R12: dynamic', () => {
  test.each([1, 2, 3, 4, 7])('%s processes share all shards of all queues evenly', (processes) => {
    const counts = Array.from({ length: processes }, (_, rank) => {
      const first = taken(dynamic(), queueShards(5, { processes, rank }))
      const second = taken(dynamic(), queueShards(9, { first: 5, processes, rank }))
      return first.length + second.length
    })
    expect(counts.reduce((sum, count) => sum + count)).toBe(14)
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1)
  })

  test('processes whose lists differ leave no shard to nobody', () => {
    const one = taken(dynamic(), queueShards(5, { first: 5, processes: 2, rank: 0, same: false }))
    const two = taken(dynamic(), queueShards(5, { first: 0, processes: 2, rank: 1, same: false }))
    expect(one.length + two.length).toBe(5)
  })

  test('keeps what it holds, up to its part, and a process that is not alive takes nothing', () => {
    const holds = ({ shard }: ShardRef) => shard >= 3
    const kept = taken(dynamic(), queueShards(5, { processes: 2, rank: 0, holds }))
    expect(kept.map(({ shard }) => shard)).toEqual([3, 4, 0])
    expect(taken(dynamic(), queueShards(5, { processes: 2, rank: -1, holds }))).toEqual([])
  })

  test('two and three workers have even parts, and take over from one that stops', async () => {
    const queue = env.queue({ shards: 7, perform() {} })
    const workers = [await env.work({ queues: [queue] }), await env.work({ queues: [queue] })]
    await expectShares(workers, queue, [3, 4])
    workers.push(await env.work({ queues: [queue] }))
    await expectShares(workers, queue, [2, 2, 3])
    await workers.shift()!.stop()
    await expectShares(workers, queue, [3, 4])
    await workers.shift()!.stop()
    await expectShares(workers, queue, [7])
  })

  test('a worker of other queues does not count, and where lists differ each shard has somebody', async () => {
    const one = env.queue({ shards: 5, perform() {} })
    const two = env.queue({ shards: 5, perform() {} })
    const both = await env.work({ queues: [one, two] })
    const second = await env.work({ queues: [two] })
    await expectShares([both], one, [5])
    await expectShares([both, second], two, [2, 3])

    const turned = await env.work({ queues: [two, one] })
    await expectShares([both, turned], one, [2, 3])
    await expectShares([both, second, turned], two, [1, 2, 2])
  })

  test('what waits in the shards that come is performed at once, though the next full look is far', async () => {
    const queue = env.queue({ shards: 2, perform() {} })
    const leaving = await env.work({ queues: [queue], poll: 3_600_000 })
    const staying = await env.work({ queues: [queue], poll: 3_600_000 })
    await expectShares([leaving, staying], queue, [1, 1])
    const [theirs] = await shardsHeld(env, leaving.processId, queue)
    await leaving.quiet()
    const completed = next(staying, 'completed', ({ shard }) => shard === theirs)
    await env.lockstep.enqueue(
      queue,
      Array.from({ length: 20 }, (_, id) => ({ id })),
    )
    await completed
  })

  test('a worker whose lock connection broke locks its shards anew, and serves them', async () => {
    const queue = env.queue({ shards: 3, perform() {} })
    const worker = await env.work({ queues: [queue] })
    await expectShares([worker], queue, [3])
    // Several times, since a comparison under way may see that the process is missing, and release all shards by
    // itself.
    for (let time = 0; time < 6; time += 1) {
      await env.sql(
        `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND granted
       AND classid = 'lockstep.jobs'::regclass
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      )
      await expectShares([worker], queue, [3])
    }
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    await completed
  })

  test('a shard whose batch is in work goes at once; the batch goes on, and its id begins nowhere else', async () => {
    const gate = new Gate()
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 2,
      perform: recorder.around((batch) =>
        [...batch.keys()][0]!.startsWith('long') ? gate.opened : undefined,
      ),
    })
    const first = await env.work({ queues: [queue], slots: 10 })
    const told: number[] = []
    first.on('rebalanced', ({ shards }) => told.push(shards))
    const long = Array.from({ length: 8 }, (_, id) => `long-${id}`)
    await env.lockstep.enqueue(
      queue,
      long.map((id) => ({ id })),
    )
    await eventually(() => expect(first.report()).toHaveLength(8))
    const second = await env.work({ queues: [queue] })
    await expectShares([first, second], queue, [1, 1])
    await eventually(() => expect(told.at(-1)).toBe(1))
    expect(first.report()).toHaveLength(8)

    // Meanwhile, other jobs of the moved shard are performed there. What is pushed into a job in progress waits for its
    // end.
    const [moved] = await shardsHeld(env, second.processId, queue)
    const others = Array.from({ length: 20 }, (_, id) => `other-${id}`)
    const theirs = new Set<string>()
    second.on('completed', ({ ids, shard }) => {
      expect(shard).toBe(moved)
      for (const id of ids) theirs.add(id)
    })
    await env.lockstep.enqueue(
      queue,
      [...others, ...long].map((id) => ({ id, payload: 2 })),
    )
    await eventually(() => {
      for (const id of others) expect(recorder.of(id)).toHaveLength(1)
    })
    expect(theirs.size).toBeGreaterThan(0)
    for (const id of long) expect(recorder.of(id)).toHaveLength(1)
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(overlaps(recorder.runs)).toEqual([])
    for (const id of long) expect(recorder.of(id).map(({ payloads }) => payloads)).toEqual([[''], [2]])
    expect(long.some((id) => theirs.has(id))).toBe(true)
  })
})

async function expectShares(workers: readonly Worker[], queue: Queue, shares: readonly number[]) {
  const held = () =>
    Promise.all(workers.map(async ({ processId }) => (await shardsHeld(env, processId, queue)).length))
  await eventually(async () => expect((await held()).sort()).toEqual(shares))
}
