import { afterAll, beforeAll, expect, test } from 'vitest'
import { addCounts } from '../../src/store/counter.ts'
import { Trimming } from '../../src/worker/maintenance/trimming.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

const MINUTE = 60_000

type Minute = { processed: string; failed: string }

test('R11 stats of nothing are nothing', async () => {
  const { queues, total } = await env.lockstep.stats()
  expect(queues).toEqual([])
  expect(total).toEqual({
    waiting: 0,
    due: 0,
    fresh: 0,
    retrying: 0,
    working: 0,
    dead: 0,
    lag: 0,
    processed: 0,
    failed: 0,
    expired: 0,
  })
})

test('R11 stats per queue and in total are those of a population made by hand', async () => {
  const orders = await env.queue({ shards: 4 })
  const mails = await env.queue({ shards: 1 })
  const idle = await env.queue({ shards: 2 })
  const now = Date.now()

  // Orders: 2 dead payloads; 2 retrying, of which 1 is due; 3 fresh, of which 2 are due.
  await orders.push({ id: 'dead', payload: 1 }, { id: 'dead', payload: 2 })
  await env.lockstep.kill(orders.queue, {})
  await orders.push({ id: 'r1', performIn: now - 2 * MINUTE }, { id: 'r2', performIn: now + MINUTE })
  await env.query('UPDATE lockstep.jobs SET retry_count = 0 WHERE queue_id = $1', [orders.queueId])
  await orders.push(
    { id: 'f1', performIn: now - 5 * MINUTE },
    { id: 'f2', performIn: now - MINUTE },
    { id: 'f3', performIn: now + MINUTE },
  )
  // Mails: 1 in progress for a long time, 1 left by a dead process, 1 due later.
  await mails.push({ id: 'w', performIn: now - 60 * MINUTE })
  const claimer = await mails.claimer()
  await claimer.take()
  await mails.push({ id: 'left', performIn: now - 3 * MINUTE })
  const dead = await mails.claimer()
  await dead.take()
  await env.expire(dead.processId)
  await mails.push({ id: 'later', performIn: now + MINUTE })
  await env.query(
    `INSERT INTO lockstep.counters (queue_id, day, processed, failed) VALUES ($1, current_date - 1, 100, 7)`,
    [mails.queueId],
  )
  await addCounts(env.database, [
    { queueId: orders.queueId, processed: 5, failed: 1, expired: 0 },
    { queueId: mails.queueId, processed: 11, failed: 2, expired: 0 },
  ])
  await env.lockstep.pause(mails.queue)

  const { queues, total } = await env.lockstep.stats()
  const lags = queues.map(({ lag }) => Math.round(lag / MINUTE))
  expect(lags).toEqual([5, 3, 0])
  expect(queues.map(({ lag, pausedAt, ...rest }) => rest)).toEqual([
    {
      queue: orders.queue.name,
      shards: 4,
      waiting: 5,
      due: 3,
      fresh: 3,
      retrying: 2,
      working: 0,
      dead: 2,
      processed: 5,
      failed: 1,
      expired: 0,
    },
    {
      queue: mails.queue.name,
      shards: 1,
      waiting: 2,
      due: 1,
      fresh: 2,
      retrying: 0,
      working: 1,
      dead: 0,
      processed: 111,
      failed: 9,
      expired: 0,
    },
    {
      queue: idle.queue.name,
      shards: 2,
      waiting: 0,
      due: 0,
      fresh: 0,
      retrying: 0,
      working: 0,
      dead: 0,
      processed: 0,
      failed: 0,
      expired: 0,
    },
  ])
  expect(queues.map(({ pausedAt }) => pausedAt instanceof Date)).toEqual([false, true, false])
  expect(queues[2]!.lag).toBe(0)
  expect(total).toEqual({
    waiting: 7,
    due: 4,
    fresh: 5,
    retrying: 2,
    working: 1,
    dead: 2,
    lag: Math.max(...queues.map(({ lag }) => lag)),
    processed: 116,
    failed: 10,
    expired: 0,
  })
})

test('counts by minute are there beside those by day, and are trimmed after a day', async () => {
  const testQueue = await env.queue()
  const { name } = testQueue.queue
  const count = { queueId: testQueue.queueId, processed: 3, failed: 1, expired: 0 }
  await addCounts(env.database, [count])
  await addCounts(env.database, [count])
  const minutes = () =>
    env.query<Minute>(
      'SELECT processed, failed FROM lockstep.queue_minutes WHERE queue = $1 ORDER BY minute',
      [name],
    )
  const sum = (rows: readonly Minute[]) =>
    rows.reduce((total, row) => [total[0]! + Number(row.processed), total[1]! + Number(row.failed)], [0, 0])
  expect(sum(await minutes())).toEqual([6, 2])
  await env.query(
    `INSERT INTO lockstep.minute_counters (queue_id, minute, processed, failed)
     SELECT $1, date_trunc('minute', now()) - n * interval '1 minute', 100, 0 FROM unnest('{1430,1442,9999}'::int[]) AS n`,
    [testQueue.queueId],
  )
  const trimming = new Trimming()
  expect(await trimming.run(env.database)).toEqual({
    minutes: 2,
    audit: 0,
    tenants: 0,
    limits: 0,
    keys: 0,
    results: 0,
    replyQueues: 0,
  })
  expect(await trimming.run(env.database)).toBeUndefined()
  expect(sum(await minutes())).toEqual([106, 2])
})

test('R11 processes are those that nobody has removed, with what they have in work', async () => {
  const testQueue = await env.queue({ batchSize: 3 })
  await testQueue.push({ id: 'a' }, { id: 'b' })
  const claimer = await testQueue.claimer()
  await claimer.claim()
  const gone = await testQueue.claimer()
  await env.expire(gone.processId)

  const processes = await env.lockstep.processes()
  const numbers = processes.map(({ processId }) => processId)
  expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
  expect(numbers).not.toContain(gone.processId)
  const { startedAt, expiresAt, ...row } = processes.find(({ processId }) => processId === claimer.processId)!
  expect(row).toEqual({
    processId: claimer.processId,
    host: 'here',
    pid: 1,
    version: '0',
    queues: [],
    slots: 1,
    quiet: false,
    working: 2,
    overdue: false,
    request: null,
    reportedAt: null,
    eventLoopDelay: null,
    memory: null,
    shards: [],
    doing: [],
  })
  expect(expiresAt.getTime() - startedAt.getTime()).toBeGreaterThan(50_000)
})
