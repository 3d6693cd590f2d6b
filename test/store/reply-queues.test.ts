import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Trimming } from '../../src/worker/maintenance/trimming.ts'
import { openStore, pidOf, type StoreEnvironment, untilBlocked } from '../support/store-environment.ts'
import { Gate } from './gate.ts'

let env: StoreEnvironment
let gate: Gate

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateReplyQueues()
})
afterAll(() => env?.close())
afterEach(async () => {
  await env.endSessions()
  for (const table of ['queues', 'jobs']) await env.query(`DELETE FROM lockstep.${table}`)
})

let ids = 0

/** The name of a queue for the reply to a task. */
function reply(): string {
  ids += 1
  return `ns/01HZZZZZZZ${String(ids).padStart(16, '0')}`
}

/** Makes a queue that is an hour old, and returns its name and number. */
async function made(name = reply(), shards = 1): Promise<{ name: string; queueId: number }> {
  const [row] = await env.query<{ id: number }>('SELECT lockstep.create_queue($1, $2) AS id', [name, shards])
  await env.query("UPDATE lockstep.queues SET created_at = now() - interval '1 hour' WHERE name = $1", [name])
  return { name, queueId: row!.id }
}

async function trim(most = 500): Promise<number> {
  const [row] = await env.query<{ trimmed: number }>('SELECT lockstep.trim_reply_queues($1) AS trimmed', [
    most,
  ])
  return row!.trimmed
}

async function names(): Promise<string[]> {
  const rows = await env.query<{ name: string }>('SELECT name FROM lockstep.queues ORDER BY name')
  return rows.map(({ name }) => name)
}

test('queues of tasks that are over go, no more than asked for at once, with what was counted', async () => {
  const [first, , third] = [await made(), await made(), await made(`ns/1${reply().slice(3)}`)]
  for (const table of ['counters', 'minute_counters'])
    await env.query(
      `INSERT INTO lockstep.${table} (queue_id, ${table === 'counters' ? 'day' : 'minute'}, processed, failed)
       VALUES ($1, now(), 1, 0)`,
      [first.queueId],
    )
  await env.query(
    "INSERT INTO lockstep.leases (queue_id, fence, max_retry_count, ids, ends_at) VALUES ($1, 1, 1, '{a,b}', now() + interval '1 day')",
    [first.queueId],
  )
  expect(await trim(2)).toBe(2)
  expect(await names()).toEqual([third.name])
  expect(await new Trimming().run(env.database)).toMatchObject({ replyQueues: 1 })
  for (const table of ['counters', 'minute_counters', 'leases'])
    expect(await env.query(`SELECT FROM lockstep.${table}`)).toEqual([])
  expect(await trim(2)).toBe(0)
})

test('P3 a queue stays that is young, has something, is no reply’s, or that somebody means to keep', async () => {
  const kept = [
    await made('ns/orders'),
    await made(reply().slice(3)),
    await made(reply(), 16),
    ...(await Promise.all(Array.from({ length: 7 }, () => made()))),
  ]
  const [waiting, dead, result, paused, limited, fair, young] = kept.slice(3)
  await env.query("SELECT lockstep.enqueue($1, 'a')", [waiting!.name])
  await env.query(
    `INSERT INTO lockstep.morgue (died_at, score, queue_id, shard, job_id, digest, payload)
     VALUES (now(), 1, $1, 0, 'a', 'x', '1')`,
    [dead!.queueId],
  )
  await env.query("INSERT INTO lockstep.results SELECT 1, now(), now(), $1, 'a', '1'", [result!.queueId])
  await env.query('UPDATE lockstep.queues SET paused_at = now() WHERE queue_id = $1', [paused!.queueId])
  await env.query("UPDATE lockstep.queues SET limits = '{}' WHERE queue_id = $1", [limited!.queueId])
  await env.query("UPDATE lockstep.queues SET fairness = '{}' WHERE queue_id = $1", [fair!.queueId])
  await env.query(
    "UPDATE lockstep.queues SET created_at = now() - interval '9 minutes' WHERE queue_id = $1",
    [young!.queueId],
  )
  expect(await trim()).toBe(0)
  expect(await names()).toEqual(kept.map(({ name }) => name).sort())
})

test('a queue stays while somebody waits for its jobs', async () => {
  const { name, queueId } = await made()
  const consumer = await env.transaction()
  await consumer.query("SELECT pg_advisory_xact_lock_shared('lockstep.queues'::regclass::oid::integer, $1)", [
    queueId,
  ])
  expect(await trim()).toBe(0)
  expect(await names()).toEqual([name])
  await consumer.query('ROLLBACK')
  expect(await trim()).toBe(1)
})

describe.each([
  ['of one job', "SELECT lockstep.enqueue($1, 'a')"],
  ['of many', "SELECT lockstep.enqueue_many($1, '{a,b}')"],
])('a push %s', (_, push) => {
  test('P3 that is under way keeps its queue, and one after it finds that there is none', async () => {
    const { name } = await made()
    const producer = await env.transaction()
    await producer.query(push, [name])
    expect(await trim()).toBe(0)
    await producer.query('ROLLBACK')
    expect(await trim()).toBe(1)
    await expect(env.query(push, [name])).rejects.toMatchObject({ code: 'LOCKSTEP_UNKNOWN_QUEUE' })
  })

  test('P3 that is committed before the row is locked keeps its queue', async () => {
    const [{ name }] = [await made(), await made()]
    const trimmed = await gate.during(
      (session) => session.query('SELECT lockstep.trim_reply_queues() AS trimmed'),
      () => env.query(push, [name]).then(() => {}),
    )
    expect(trimmed.rows).toEqual([{ trimmed: 1 }])
    expect(await names()).toEqual([name])
  })

  test.each([
    ['waits, and finds that there is no such queue', 'COMMIT', 'LK001'],
    ['waits, and goes on if it stays', 'ROLLBACK', undefined],
  ])('P3 that comes while its queue is trimmed %s', async (_, end, code) => {
    const { name } = await made()
    const trimming = await env.transaction()
    await trimming.query('SELECT lockstep.trim_reply_queues()')
    const producer = await env.session()
    const pid = await pidOf(producer)
    const pushed = producer.query(push, [name]).then(
      () => undefined,
      (error) => error.code,
    )
    await untilBlocked(env, pid)
    await trimming.query(end)
    expect(await pushed).toBe(code)
  })

  test('P7 into another queue waits for nothing while queues are trimmed', async () => {
    await made()
    const { name } = await made('ns/orders')
    const trimming = await env.transaction()
    expect((await trimming.query('SELECT lockstep.trim_reply_queues() AS trimmed')).rows).toEqual([
      { trimmed: 1 },
    ])
    const producer = await env.transaction("BEGIN; SET LOCAL lock_timeout = '1ms'")
    await producer.query(push, [name])
  })

  test('P3 in a transaction whose snapshot has a queue that is gone is refused', async () => {
    const { name } = await made()
    const producer = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await producer.query('SELECT FROM lockstep.queues')
    expect(await trim()).toBe(1)
    await expect(producer.query(push, [name])).rejects.toMatchObject({ code: '40001' })
  })
})

test('queues go though the application always has some transaction open that has pushed', async () => {
  await made()
  const { name } = await made('ns/orders')
  const producer = await env.transaction()
  await producer.query("SELECT lockstep.enqueue($1, 'a')", [name])
  expect(await trim()).toBe(1)
  expect(await names()).toEqual([name])
})

test('one whose counts are being stored goes with the next call', async () => {
  const { queueId } = await made()
  await env.query(
    'INSERT INTO lockstep.counters (queue_id, day, processed, failed) VALUES ($1, now(), 1, 0)',
    [queueId],
  )
  const counting = await env.transaction()
  await counting.query('UPDATE lockstep.counters SET processed = 2 WHERE queue_id = $1', [queueId])
  expect(await trim()).toBe(0)
  await counting.query('COMMIT')
  expect(await trim()).toBe(1)
})

test('it refuses a snapshot that hides what others have pushed', async () => {
  await made()
  const other = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await expect(other.query('SELECT lockstep.trim_reply_queues()')).rejects.toThrow(/READ COMMITTED/)
})
