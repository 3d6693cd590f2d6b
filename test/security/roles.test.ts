import { drizzle } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { transactionsOf } from '../../src/adapters/drizzle.ts'
import { type Batch, defineQueue, type Queue, type Worker } from '../../src/index.ts'
import { lockstep as command, fixture } from '../cli/command.ts'
import { runHere } from '../cli/in-process.ts'
import { eventually } from '../support/worker-environment.ts'
import { prefix, SCHEMA, useRoles } from './role-environment.ts'
import { ROWS } from './rows.ts'

const env = useRoles()

describe('each role does its work', () => {
  let queues = 0
  const name = () => {
    queues += 1
    return `queue ${queues}`
  }

  async function work(...queues: Queue[]): Promise<Worker> {
    const worker = env.lockstep('worker').createWorker({ queues, shutdownTimeout: 100, poll: 100 })
    env.later(() => worker.stop())
    await worker.start()
    return worker
  }

  const counts = async ({ name }: Queue) => {
    const { queues } = await env.lockstep('viewer').stats()
    const { waiting, working, dead } = queues.find(({ queue }) => queue === name)!
    return { waiting, working, dead }
  }

  test('a producer waits for the results of a worker and of a consumer, in the library and from SQL', async () => {
    const queue = defineQueue(name(), { keepResult: 60, perform: (batch) => [...batch.values()].flat() })
    const producer = env.lockstep('producer')
    const first = await producer.enqueueForResult(queue, { id: 'a', payload: 1 })
    const consumer = env.lockstep('worker').createConsumer()
    env.later(() => consumer.stop())
    const [job] = await consumer.claim({ queues: queue, wait: 5_000 })
    await consumer.complete(job!, { result: 'by hand' })
    expect(await producer.result(queue, 'a', first.round)).toMatchObject({ result: 'by hand' })
    await work(queue)
    const [pushed] = (
      await env
        .session('producer')
        .query(`SELECT ${prefix}.enqueue_for_result($1, 'b', '2') AS round`, [queue.name])
    ).rows
    const answer = await producer.result(queue, 'b', pushed.round, { wait: 10_000 })
    expect(answer).toMatchObject({ state: 'completed', result: [2] })
    expect(await env.lockstep('viewer').result(queue, 'b', pushed.round)).toEqual(answer)
    await env.session('worker').query(`SELECT ${prefix}.trim_results(), ${prefix}.trim_reply_queues()`)
  })

  test('a producer pushes, alone, in a transaction and from SQL; a worker completes, retries and buries', async () => {
    const handed: unknown[] = []
    const queue = defineQueue(name(), {
      maxRetryCount: 1,
      retryIn: () => 0,
      perform(batch) {
        for (const [id, payloads] of batch) handed.push([id, ...payloads])
        if (batch.has('dies') || handed.length === 1) throw new Error('not this time')
      },
    })
    const producer = env.lockstep('producer')
    await producer.enqueue(queue, [{ id: 'retried', payload: 1 }])
    await work(queue)
    await eventually(() => expect(handed).toEqual(Array(2).fill(['retried', 1])))
    const client = await env.session('producer').connect()
    await client.query('BEGIN')
    await producer.enqueue(queue, { id: 'in a transaction', payload: 2 }, { tx: client })
    await client.query('COMMIT')
    await client.query(`SELECT ${prefix}.enqueue($1, 'from SQL', '3')`, [queue.name])
    client.release()
    await producer.enqueue(queue, { id: 'dies', payload: 4 })
    await eventually(async () => expect(await counts(queue)).toEqual({ waiting: 0, working: 0, dead: 1 }))
    expect(handed.slice(2).sort()).toEqual([
      ['dies', 4],
      ['dies', 4],
      ['from SQL', 3],
      ['in a transaction', 2],
    ])
  })

  test('a viewer sees the tenants of a queue, with what its rules say', async () => {
    const queue = defineQueue(name(), { shards: 1 })
    await env.lockstep('producer').enqueue(queue, { id: 'a', tenant: 'acme' })
    const rules = [{ over: 0, per: 60, lane: 1 }]
    await env
      .session('owner')
      .query(`SELECT ${prefix}.set_fairness(queue_id, $2) FROM ${prefix}.queues WHERE name = $1`, [
        queue.name,
        { window: 60, rules },
      ])
    await env.lockstep('producer').enqueue(queue, { id: 'b', tenant: 'acme' })
    expect(await env.lockstep('viewer').tenants(queue)).toEqual({
      ...{ total: 1, rules, next: undefined },
      items: [
        {
          ...{ tenant: 'acme', waiting: 2, working: 0, lag: expect.any(Number) },
          ...{ pushes: [1], lane: 1, throttled: true },
        },
      ],
    })
    const { items } = await env.lockstep('viewer').find(queue, { tenant: 'acme', by: 'id' })
    expect(items.map(({ id, lane }) => [id, lane])).toEqual([
      ['a', 0],
      ['b', 1],
    ])
  })

  test('a worker releases what it can’t end, and another one performs it in its own transaction', async () => {
    let begun = 0
    const queue = defineQueue(name(), {
      transactional: true,
      async perform(_, { tx, signal }) {
        begun += 1
        await tx.query('SELECT 1')
        if (begun === 1) await new Promise((_, reject) => signal.addEventListener('abort', reject))
      },
    })
    await env.lockstep('producer').enqueue(queue, { id: 'a' })
    const first = await work(queue)
    await eventually(() => expect(begun).toBe(1))
    expect(await first.stop()).toBe(true)
    expect(await counts(queue)).toEqual({ waiting: 1, working: 0, dead: 0 })
    await work(queue)
    await eventually(async () => expect(await counts(queue)).toEqual({ waiting: 0, working: 0, dead: 0 }))
    expect(begun).toBe(2)
  })

  test('a worker performs in transactions of an application that has its role', async () => {
    const application = drizzle(env.session('worker'))
    const roles: unknown[] = []
    const queue = defineQueue(name(), {
      transactional: transactionsOf(application),
      async perform(_: Batch, { tx }) {
        const { rows } = await tx.execute('SELECT current_user AS role')
        roles.push(rows[0]!.role)
      },
    })
    await env.lockstep('producer').enqueue(queue, { id: 'a' })
    await work(queue)
    await eventually(async () => expect(await counts(queue)).toEqual({ waiting: 0, working: 0, dead: 0 }))
    expect(roles).toEqual([env.logins.role('worker')])
  })

  test('a worker moves what a reshard left behind, rescues, and forgets dead processes', async () => {
    const rescued: string[] = []
    const queue = defineQueue(name(), { shards: 8 })
    const later = new Date('2999-01-01')
    const ids = Array.from({ length: 30 }, (_, index) => `later ${index}`)
    await env
      .lockstep('producer')
      .enqueue(queue, [
        ...ids.map((id) => ({ id, performIn: later })),
        { id: 'left by the dead', performIn: later },
      ])
    const pool = env.session('owner')
    const { rows } = await pool.query(
      `INSERT INTO ${prefix}.processes (host, pid, version, slots, queues, lease, expires_at)
       SELECT 'gone', 1, '0', 1, '{}', 500, clock_timestamp() FROM generate_series(1, 2)
       RETURNING process_id`,
    )
    await pool.query(
      `UPDATE ${prefix}.jobs SET perform_in = now(), claimed_by = $1, fence = nextval('${prefix}.fences')
       WHERE id = 'left by the dead'`,
      [rows[0].process_id],
    )
    await pool.query(`UPDATE ${prefix}.queues SET shards = 1 WHERE name = $1`, [queue.name])
    await work(defineQueue(queue.name, { perform: (batch) => void rescued.push(...batch.keys()) }))
    await eventually(async () => {
      const { rows } = await pool.query(
        `SELECT (SELECT count(*)::int FROM ${prefix}.jobs WHERE shard > 0) AS strays,
           (SELECT count(*)::int FROM ${prefix}.processes WHERE host = 'gone') AS gone`,
      )
      expect(rows).toEqual([{ strays: 0, gone: 0 }])
      expect(rescued).toEqual(['left by the dead'])
    })
  })

  test('a worker grows a queue to its definition, and can do nothing else to its row; a producer can’t', async () => {
    const queue = defineQueue(name(), { shards: 2, perform() {} })
    await env.lockstep('producer').enqueue(queue, { id: 'a' })
    await work(defineQueue(queue.name, { shards: 9, perform() {} }))
    const row = async () =>
      (
        await env
          .session('owner')
          .query(`SELECT queue_id AS id, shards FROM ${prefix}.queues WHERE name = $1`, [queue.name])
      ).rows[0]
    const { id, shards } = await row()
    expect(shards).toBe(9)
    const refused = { code: '42501' }
    const grow = `SELECT ${prefix}.grow_queue($1, 12)`
    await expect(env.session('producer').query(grow, [id])).rejects.toMatchObject(refused)
    const shrink = `UPDATE ${prefix}.queues SET shards = 1 WHERE queue_id = $1`
    await expect(env.session('worker').query(shrink, [id])).rejects.toMatchObject(refused)
    expect(await row()).toEqual({ id, shards: 9 })
  })

  test('a worker ends sessions of its own role, and no other', async () => {
    const pid = async (of: pg.Pool) => (await of.query('SELECT pg_backend_pid() AS pid')).rows[0].pid
    const own = env.session('worker')
    const killer = env.session('worker')
    const end = async (of: pg.Pool) => killer.query('SELECT pg_terminate_backend($1)', [await pid(of)])
    const before = await pid(own)
    await end(own)
    await eventually(async () => expect(await pid(own)).not.toBe(before))
    await expect(end(env.session('producer'))).rejects.toMatchObject({ code: '42501' })
  })

  test('a viewer sees queues, jobs, payloads, the dead and processes', async () => {
    const queue = defineQueue(name(), { maxRetryCount: 0, perform: () => Promise.reject(new Error('no')) })
    await env.lockstep('producer').enqueue(queue, { id: 'dies', payload: 'p' })
    await work(queue)
    const viewer = env.lockstep('viewer')
    await eventually(async () =>
      expect(await viewer.findDead(queue)).toMatchObject({ items: [{ id: 'dies', payload: 'p' }] }),
    )
    await env.lockstep('producer').enqueue(queue, {
      id: 'waits',
      payload: 'q',
      performIn: new Date('2999-01-01'),
    })
    expect(await viewer.find(queue)).toMatchObject({ items: [{ payloads: [{ payload: 'q' }] }] })
    expect(await viewer.processes()).toMatchObject([{ queues: [queue.name] }])
    const pool = env.session('viewer')
    const tx = await pool.connect()
    await tx.query('BEGIN READ ONLY')
    expect(await viewer.find(queue, {}, { tx })).toMatchObject({ items: [{ id: 'waits' }] })
    await tx.query('ROLLBACK')
    tx.release()
    for (const view of [
      'waiting',
      'working',
      'dead',
      'queue_stats',
      'queue_minutes',
      'process_list',
      'limited',
    ])
      await pool.query(`SELECT * FROM ${prefix}.${view}`)
  })

  test('the commands do too', { timeout: 120_000 }, async () => {
    const as = (who: string, ...args: string[]) =>
      runHere([...args, '--schema', SCHEMA], { DATABASE_URL: env.logins.url(who) })
    expect(await as('producer', 'enqueue', 'zebra', ROWS, '--id', 'id')).toMatchObject({ code: 0 })
    const work = ['work', '-r', fixture('several.ts'), '--drain', '--schema', SCHEMA]
    const variables = { DATABASE_URL: env.logins.url('worker') }
    expect(await command(work, { env: variables })).toMatchObject({ code: 0 })
    for (const args of [['stats'], ['top', '--once'], ['jobs', 'find', 'zebra'], ['morgue', 'list', 'zebra']])
      expect(await as('viewer', ...args)).toMatchObject({ code: 0, stderr: '' })
    const { code, stderr } = await as('viewer', 'pause', 'zebra')
    expect(stderr).toMatch(/permission denied.*lockstep roles/)
    expect(code).toBe(1)
  })
})
