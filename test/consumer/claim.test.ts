import { expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { Network } from '../support/network.ts'
import { eventually } from '../support/worker-environment.ts'
import { claimed, useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

test('a claim brings a job with all that has piled up for its id', async () => {
  const queue = env.queue({})
  await env.lockstep.enqueue(queue, [
    { id: 'a', payload: 'second', score: 2 },
    { id: 'a', payload: 'first', score: 1 },
  ])
  const [job] = await consumer().claim({ queues: queue })
  expect(job).toMatchObject({
    queue: queue.name,
    id: 'a',
    payloads: ['first', 'second'],
    scores: [1, 2],
    retryCount: -1,
    crashes: 0,
    error: null,
  })
  expect(job!.fence).toBeGreaterThan(0)
})

test('without a job, it brings nothing at once, or when its time is up', async () => {
  const one = consumer()
  const queue = env.queue({})
  expect(await one.claim({ queues: queue.name })).toEqual([])
  const startedAt = performance.now()
  expect(await one.claim({ queues: queue.name, wait: 300 })).toEqual([])
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(299)
})

test('it waits for a job that is pushed meanwhile, and for one that becomes due', async () => {
  const one = consumer()
  const queue = env.queue({})
  const waiting = claimed(one, { queues: queue, wait: 10_000 })
  await env.idle(queue)
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  expect(await waiting).toEqual(['a: 1'])
  const later = claimed(one, { queues: queue, wait: 10_000 })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 2, performIn: Date.now() + 200 })
  expect(await later).toEqual(['b: 2'])
})

test('it brings what is due, up to its count, from all shards, in the order in which it was due', async () => {
  const one = consumer()
  const queue = env.queue({ shards: 4 })
  const now = Date.now()
  const jobs = Array.from({ length: 30 }, (_, n) => ({
    id: `job ${n}`,
    payload: n,
    performIn: now - 1000 + n,
  }))
  await env.lockstep.enqueue(queue, jobs)
  const first = await one.claim({ queues: queue, count: 20, wait: 1_000 })
  expect(first).toHaveLength(20)
  const rest = await one.claim({ queues: queue, count: 20, wait: 1_000 })
  expect([...first, ...rest].map(({ id }) => id).sort()).toEqual(jobs.map(({ id }) => id).sort())
})

test('in one shard, jobs come in the order in which they were due', async () => {
  const one = consumer()
  const queue = env.queue({ shards: 1 })
  const now = Date.now()
  await env.lockstep.enqueue(
    queue,
    [3, 1, 2].map((n) => ({ id: `${n}`, payload: n, performIn: now - 1000 + n })),
  )
  expect(await claimed(one, { queues: queue, count: 2 })).toEqual(['1: 1', '2: 2'])
  expect(await claimed(one, { queues: queue, count: 2 })).toEqual(['3: 3'])
})

test('of several queues, the first that has something gives all', async () => {
  const one = consumer()
  const [high, low] = [env.queue({ shards: 1 }), env.queue({ shards: 1 })]
  await env.lockstep.enqueue(low, { id: 'low', payload: 1 })
  await env.lockstep.enqueue(high, { id: 'high', payload: 1 })
  const order = { queues: [high, low.name] }
  expect(await claimed(one, order)).toEqual(['high: 1'])
  expect(await claimed(one, order)).toEqual(['low: 1'])
  const waiting = claimed(one, { ...order, wait: 10_000 })
  await env.lockstep.enqueue(low, { id: 'later', payload: 1 })
  expect(await waiting).toEqual(['later: 1'])
})

test('of several queues, the first gives what was pushed before, though only the second is known to have something', async () => {
  const one = consumer()
  const [high, low] = [env.queue({ shards: 3 }), env.queue({ shards: 1 })]
  const order = { queues: [high, low] }
  await env.lockstep.enqueue(
    low,
    Array.from({ length: 100 }, (_, n) => ({ id: `low ${n}` })),
  )
  expect(await one.claim(order)).toHaveLength(1)
  for (let n = 0; n < 10; n += 1) {
    const tx = await env.session()
    await tx.query('BEGIN')
    await env.lockstep.enqueue(high, { id: `high ${n}` }, { tx, wake: false })
    await tx.query('COMMIT')
    const claims = await Promise.all([one.claim(order), one.claim(order), one.claim(order)])
    expect(claims.flat().filter(({ queue }) => queue === high.name)).toMatchObject([{ id: `high ${n}` }])
  }
})

test('with weights, each queue comes first by its own', async () => {
  const one = consumer()
  const [often, rarely] = [env.queue({ shards: 1 }), env.queue({ shards: 1 })]
  const jobs = Array.from({ length: 60 }, (_, n) => ({ id: n, payload: n }))
  await env.lockstep.enqueue(often, jobs)
  await env.lockstep.enqueue(rarely, jobs)
  let first = 0
  for (let n = 0; n < 60; n += 1) {
    const [job] = await one.claim({ queues: { [often.name]: 5, [rarely.name]: 1 } })
    if (job!.queue === often.name) first += 1
  }
  // 50 are expected; 30 or less happen once in 10⁹ runs.
  expect(first).toBeGreaterThan(30)
})

test('an id is held by one at a time, and what is pushed meanwhile comes after it', async () => {
  const [one, other] = [consumer(), consumer()]
  const queue = env.queue({})
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [job] = await one.claim({ queues: queue })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2 })
  expect(await other.claim({ queues: queue, wait: 200 })).toEqual([])
  expect(await one.complete(job!)).toBe(true)
  expect(await claimed(other, { queues: queue, wait: 5_000 })).toEqual(['a: 2'])
})

test('many that wait are each given their own', async () => {
  const one = consumer()
  const queue = env.queue({ shards: 3 })
  const waiting = Array.from({ length: 50 }, () => claimed(one, { queues: queue, wait: 10_000 }))
  await env.idle(queue)
  await env.lockstep.enqueue(
    queue,
    Array.from({ length: 50 }, (_, n) => ({ id: `${n}`, payload: n })),
  )
  const jobs = (await Promise.all(waiting)).flat()
  expect(new Set(jobs).size).toBe(50)
})

test('nobody is told that there is nothing while there is', async () => {
  const one = consumer()
  const queue = env.queue({ shards: 2 })
  await env.lockstep.enqueue(
    queue,
    Array.from({ length: 3_000 }, (_, n) => ({ id: `${n}`, payload: n })),
  )
  const taken: string[] = []
  const takeAll = async () => {
    for (;;) {
      const jobs = await one.claim({ queues: queue, count: 100 })
      if (jobs.length === 0) return taken.length
      taken.push(...jobs.map(({ id }) => id))
      await Promise.all(jobs.map((job) => one.complete(job)))
    }
  }
  await Promise.all([takeAll(), takeAll(), takeAll(), takeAll()])
  expect(new Set(taken).size).toBe(3_000)
})

test('without wait, it finds what was pushed, though what it knows to be due has been taken by others', async () => {
  const [one, other] = [consumer({ poll: 60 }), consumer()]
  const queue = env.queue({ shards: 64 })
  await env.lockstep.enqueue(
    queue,
    ['a', 'b', 'c', 'd'].map((id) => ({ id })),
  )
  // Its look has found all four.
  expect(await one.claim({ queues: queue })).toHaveLength(1)
  expect(await other.claim({ queues: queue, count: 3 })).toHaveLength(3)
  const tx = await env.session()
  await tx.query('BEGIN')
  await env.lockstep.enqueue(queue, { id: 'e', payload: 5 }, { tx, wake: false })
  await tx.query('COMMIT')
  expect(await claimed(one, { queues: queue })).toEqual(['e: 5'])
})

/** A consumer behind a network, and a push through another connection that wakes nobody. */
async function behindNetwork() {
  const network = await Network.to(env.connectionString)
  const lockstep = new Lockstep({ connectionString: network.connectionString, logger: env.logger })
  const one = lockstep.createConsumer({ poll: 60 })
  env.later(async () => {
    network.restore()
    await one.stop()
    await lockstep.close()
    await network.close()
  })
  const queue = env.queue({ shards: 1 })
  const push = async (id: string) => {
    await env.sql(`SELECT set_config('lockstep.wake', 'off', true), lockstep.enqueue($1, $2)`, [
      queue.name,
      id,
    ])
  }
  return { network, one, queue, push }
}

test('without wait, it finds what has just been pushed, though its clock is behind the server’s', async () => {
  const { network, one, queue, push } = await behindNetwork()
  // So late, an answer tells little of when it was given: the middle of what is possible is 50 ms behind.
  network.slow(100, { answersOnly: true })
  expect(await one.claim({ queues: queue })).toEqual([])
  network.restore()
  await push('a')
  expect(await claimed(one, { queues: queue })).toEqual(['a: '])
})

test('without wait, it finds what was pushed while another claim was under way', async () => {
  const { network, one, queue, push } = await behindNetwork()
  expect(await one.claim({ queues: queue })).toEqual([])
  await push('a')
  network.slow(200, { answersOnly: true })
  const first = claimed(one, { queues: queue })
  await eventually(async () => {
    const [row] = await env.sql(`SELECT FROM lockstep.working WHERE queue = $1 AND id = 'a'`, [queue.name])
    expect(row).toBeDefined()
  })
  await push('b')
  const second = claimed(one, { queues: queue })
  expect(await first).toEqual(['a: '])
  expect(await second).toEqual(['b: '])
})

test('a worker and a consumer share a queue', async () => {
  const one = consumer()
  const performed: string[] = []
  const queue = env.queue({
    perform(batch) {
      performed.push(...batch.keys())
    },
  })
  const jobs = Array.from({ length: 200 }, (_, n) => ({ id: `${n}`, payload: n }))
  await env.lockstep.enqueue(queue, jobs)
  await env.work({ queues: [queue] })
  const taken: string[] = []
  for (;;) {
    const some = await one.claim({ queues: queue, count: 5 })
    if (some.length === 0) break
    taken.push(...some.map(({ id }) => id))
    await Promise.all(some.map((job) => one.complete(job)))
  }
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect([...performed, ...taken].sort()).toEqual(jobs.map(({ id }) => id).sort())
})

test('one that is aborted gets nothing, and uses nothing up', async () => {
  const one = consumer()
  const queue = env.queue({})
  const abort = new AbortController()
  const waiting = one.claim({ queues: queue, wait: 10_000, signal: abort.signal })
  await env.idle(queue)
  abort.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [job] = await one.claim({ queues: queue, wait: 5_000 })
  expect(job).toMatchObject({ id: 'a', retryCount: -1, crashes: 0 })
  await expect(one.claim({ queues: queue, signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow(
    'before',
  )
})

test('one that is aborted, or whose time is over, is answered while a look at the database hangs', {
  // A look that hangs fails after ten seconds.
  timeout: 8_000,
}, async () => {
  const one = consumer()
  const queue = env.queue({})
  expect(await one.claim({ queues: queue })).toEqual([])
  const holder = await env.pool.connect()
  try {
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE lockstep.jobs')
    const abort = new AbortController()
    const aborted = one.claim({ queues: queue, wait: 60_000, signal: abort.signal })
    const over = one.claim({ queues: queue, wait: 1 })
    const looks = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%look(%'"
    await eventually(async () => expect(await env.sql(looks)).not.toEqual([]))
    abort.abort(new Error('gone'))
    await expect(aborted).rejects.toThrow('gone')
    expect(await over).toEqual([])
  } finally {
    await holder.query('ROLLBACK')
    holder.release()
  }
})

test('nothing comes from a paused queue, and what waits comes when it goes on', async () => {
  const one = consumer()
  const queue = env.queue({})
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  await env.lockstep.pause(queue)
  expect(await one.claim({ queues: queue, wait: 100 })).toEqual([])
  const waiting = claimed(one, { queues: queue, wait: 10_000 })
  await env.lockstep.resume(queue)
  expect(await waiting).toEqual(['a: 1'])
})

test('who waits for jobs of a queue that is deleted has those of the one that is made anew', async () => {
  const one = consumer()
  const queue = env.queue({})
  const waiting = claimed(one, { queues: queue, wait: 5_000 })
  await env.idle(queue)
  await env.lockstep.deleteQueue(queue)
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  expect(await waiting).toEqual(['a: 1'])
})

test('P8 who comes back for the next reply has it at once, though the queue was trimmed', async () => {
  const one = consumer()
  const queue = defineQueue('ns/01HZZZZZZZ0123456789ABCDEF', { shards: 1 })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [job] = await one.claim({ queues: queue })
  await one.complete(job!)
  await env.sql("UPDATE lockstep.queues SET created_at = now() - interval '1 hour' WHERE name = $1", [
    queue.name,
  ])
  await eventually(async () =>
    expect(await env.sql('SELECT lockstep.trim_reply_queues() AS trimmed')).toEqual([{ trimmed: 1 }]),
  )
  const waiting = claimed(one, { queues: queue, wait: 5_000 })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 2 })
  expect(await waiting).toEqual(['b: 2'])
})

test('P6: a claim of a queue that was made anew is settled by whoever knew the old one', async () => {
  const [one, other] = [consumer(), consumer()]
  const queue = env.queue({})
  const claim = async () => {
    await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
    return (await one.claim({ queues: queue, wait: 5_000 }))[0]!
  }
  expect(await other.complete(await claim())).toBe(true)
  await env.lockstep.deleteQueue(queue)
  const job = await claim()
  expect(await other.extend(job, 60_000)).toBe(true)
  expect(await other.complete(job)).toBe(true)
  expect(await other.complete(job)).toBe(false)
})

test('stop answers those that wait, and keeps what was claimed', async () => {
  const one = consumer()
  const queue = env.queue({})
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [job] = await one.claim({ queues: queue })
  const waiting = one.claim({ queues: queue, wait: 60_000 })
  await env.idle(queue)
  await one.stop()
  expect(await waiting).toEqual([])
  await expect(one.claim({ queues: queue })).rejects.toMatchObject({ code: 'LOCKSTEP_CLOSED' })
  expect(await consumer().complete(job!)).toBe(true)
})

test('rounds longer than maxPayloads follow one another, whoever completes them', async () => {
  const queue = env.queue({ maxPayloads: 2 })
  const [one, other] = [consumer({ queues: [queue] }), consumer()]
  await env.lockstep.enqueue(
    queue,
    [1, 2, 3].map((n) => ({ id: 'a', payload: n, score: n })),
  )
  const [job] = await one.claim({ queues: queue })
  expect(job!.payloads).toEqual([1, 2])
  const { queue: name, id, fence } = job!
  expect(await other.extend({ queue: name, id, fence }, 60_000)).toBe(true)
  expect(await other.complete({ queue: name, id, fence })).toBe(true)
  expect(await claimed(one, { queues: queue, wait: 5_000 })).toEqual(['a: 3'])
})

test('R10: without a worker, what a dead worker had in work comes once its lease is over', async () => {
  const queue = env.queue({ shards: 1 })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [dead] = await env.sql<{ process_id: number }>(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('gone', 1, '0', 1, ARRAY[$1], 700, clock_timestamp()) RETURNING process_id`,
    [queue.name],
  )
  await env.sql(
    `UPDATE lockstep.jobs SET claimed_by = $1, claimed_at = clock_timestamp(), fence = nextval('lockstep.fences')
     WHERE id = 'a' AND queue_id = (SELECT queue_id FROM lockstep.queues WHERE name = $2)`,
    [dead!.process_id, queue.name],
  )
  expect(await consumer().claim({ queues: queue, wait: 10_000 })).toMatchObject([
    { id: 'a', crashes: 1, retryCount: -1 },
  ])
})

test('P6: of two acknowledgements of an id that come at once, the one that holds it is told so, and the late one not', async () => {
  const one = consumer()
  const queue = env.queue({})
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [late] = await one.claim({ queues: queue })
  await one.release(late!)
  const [held] = await one.claim({ queues: queue })
  expect(await Promise.all([one.extend(late!), one.extend(held!), one.extend(late!)])).toEqual([
    false,
    true,
    false,
  ])
  const [ofLate, ...ofHeld] = await Promise.all([late!, held!, held!].map((claim) => one.complete(claim)))
  expect(ofLate).toBe(false)
  // Whichever of the two comes first.
  expect(ofHeld.toSorted()).toEqual([false, true])
})
