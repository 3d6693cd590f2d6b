import type pg from 'pg'
import { describe, expect, test, vi } from 'vitest'
import { type ClientMiddleware, defineQueue, Lockstep } from '../../../src/index.ts'
import { Database } from '../../../src/postgres/database.ts'
import { Trimming } from '../../../src/worker/maintenance/trimming.ts'
import { below, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

let keys = 0
const newKey = () => ({ 'idempotency-key': `key-${++keys}` })

async function pushes(queue: string): Promise<number> {
  const rows = await env.sql(
    'SELECT FROM lockstep.jobs j JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1',
    [queue],
  )
  return rows.length
}

/** A session of the application that has a job of the queue locked. */
async function holding(queue: string, id: string): Promise<pg.PoolClient> {
  const client = await env.pool.connect()
  await client.query('BEGIN')
  await client.query('SELECT lockstep.enqueue($1, $2, $3)', [queue, id, '"held"'])
  return client
}

/** Sessions of this database that wait for a lock; not those that give it up within moments. */
async function waiting(count: number): Promise<number[]> {
  return vi.waitFor(
    async () => {
      const rows = await env.sql<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity 
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '0.1 s'`,
      )
      expect(rows).toHaveLength(count)
      return rows.map(({ pid }) => pid)
    },
    { timeout: 10_000 },
  )
}

describe('an idempotency key', () => {
  test('gives the same answer again, and pushes nothing again, also once the jobs are done', async () => {
    const { post } = await open()
    const queue = name()
    const headers = newKey()
    const body = { jobs: [{ id: 'a' }, { id: 'b' }] }
    const first = await post(below(queue, '/jobs'), body, headers)
    expect([first.json, first.headers.get('idempotency-replayed')]).toEqual([{ stored: 2 }, null])
    const { jobs } = (await post('/claim', { queues: queue, count: 2 })).json
    const claims = jobs.map(({ id, fence }: { id: string; fence: string }) => ({ queue, id, fence }))
    await post('/complete', { claims })
    const second = await post(below(queue, '/jobs'), body, headers)
    expect([second.json, second.headers.get('idempotency-replayed')]).toEqual([{ stored: 2 }, 'true'])
    expect(await pushes(queue)).toBe(0)
    await post(below(queue, '/jobs'), body, newKey())
    expect(await pushes(queue)).toBe(2)
  })

  test('is refused with another body, or for another queue', async () => {
    const { post } = await open()
    const [queue, other] = [name(), name()]
    const headers = newKey()
    await post(below(queue, '/jobs'), { id: 'a' }, headers)
    for (const [where, body] of [
      [queue, { id: 'b' }],
      [queue, '{"id": "a"}'],
      [other, { id: 'a' }],
    ] as const) {
      const answer = await post(below(where, '/jobs'), body, headers)
      expect([answer.status, answer.json.code]).toEqual([422, 'LOCKSTEP_KEY_REUSED'])
    }
    expect([await pushes(queue), await pushes(other)]).toEqual([1, 0])
  })

  test('is not used up by a request that was refused', async () => {
    const { post } = await open()
    const queue = name()
    const headers = newKey()
    expect((await post(below(queue, '/jobs'), { id: '' }, headers)).status).toBe(422)
    const large = { jobs: [{ id: 'a' }, { id: 'b', payload: '\u0000' }] }
    expect((await post(below(queue, '/jobs'), large, headers)).json.field).toBe('jobs[1].payload')
    expect((await post(below(queue, '/jobs'), { id: 'a' }, headers)).json).toEqual({ stored: 1 })
  })

  test('of requests at once, over several servers, one pushes, and all get its answer', async () => {
    const gateways = [await open(), await open({ access: 'open' }, new Lockstep({ pool: env.pool }))]
    const queue = name()
    for (let round = 0; round < 5; round += 1) {
      const headers = newKey()
      const jobs = Array.from({ length: 20 }, (_, at) => ({ id: `${round} ${at}` }))
      const answers = await Promise.all(
        Array.from({ length: 24 }, (_, at) =>
          gateways[at % 2]!.post(below(queue, '/jobs'), { jobs }, headers),
        ),
      )
      expect(new Set(answers.map(({ status, text }) => `${status} ${text}`))).toEqual(
        new Set(['200 {"stored":20}']),
      )
      expect(answers.filter(({ headers }) => !headers.has('idempotency-replayed'))).toHaveLength(1)
      expect(await pushes(queue)).toBe(20 * (round + 1))
    }
  })

  test('waits for a request with it that is under way elsewhere, and has its answer', async () => {
    const [gateway, other] = [await open(), await open({ access: 'open' }, new Lockstep({ pool: env.pool }))]
    const queue = name()
    await gateway.post(below(queue, '/jobs'), { id: 'new' })
    const held = await holding(queue, 'a')
    const headers = newKey()
    const first = gateway.post(below(queue, '/jobs'), { id: 'a' }, headers)
    await waiting(1)
    const second = other.post(below(queue, '/jobs'), { id: 'a' }, headers)
    await waiting(2)
    await held.query('COMMIT')
    held.release()
    expect((await first).headers.has('idempotency-replayed')).toBe(false)
    expect((await second).headers.get('idempotency-replayed')).toBe('true')
  })

  test('409: not for ever', { tags: 'slow', timeout: 30_000 }, async () => {
    const { post } = await open()
    const queue = name()
    const headers = newKey()
    const client = await env.pool.connect()
    await client.query('BEGIN')
    await client.query("SELECT lockstep.note_key('open', $1, '', 1)", [headers['idempotency-key']])
    const refused = await post(below(queue, '/jobs'), { id: 'a' }, headers)
    expect([refused.status, refused.json.code, refused.headers.get('retry-after')]).toEqual([
      409,
      'LOCKSTEP_KEY_IN_USE',
      '1',
    ])
    await client.query('ROLLBACK')
    client.release()
    expect((await post(below(queue, '/jobs'), { id: 'a' }, headers)).json).toEqual({ stored: 1 })
  })

  test('409: requests that come at once wait together, not one after the other', {
    tags: 'slow',
    timeout: 15_000,
  }, async () => {
    const { post } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), { id: 'new' })
    const held = await holding(queue, 'a')
    const headers = newKey()
    const push = () => post(below(queue, '/jobs'), { id: 'a' }, headers)
    const answers = await Promise.all([push(), push(), push(), push()])
    expect(answers.map(({ status }) => status)).toEqual([409, 409, 409, 409])
    await held.query('COMMIT')
    held.release()
    expect((await push()).json).toEqual({ stored: 1 })
  })

  test('is stored with its jobs or not at all, whenever the connection breaks', async () => {
    const { post } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), { id: 'new' })
    const held = await holding(queue, 'b')
    const headers = newKey()
    const jobs = Array.from({ length: 1_500 }, (_, at) => ({ id: `a${at}` }))
    const body = { jobs: [...jobs, { id: 'b' }] }
    const cut = post(below(queue, '/jobs'), body, headers)
    const [pid] = await waiting(1)
    await env.sql('SELECT pg_terminate_backend($1)', [pid])
    const answer = await cut
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5'])
    await held.query('ROLLBACK')
    held.release()
    expect(await pushes(queue)).toBe(1)
    const again = await post(below(queue, '/jobs'), body, headers)
    expect([again.json, again.headers.has('idempotency-replayed')]).toEqual([{ stored: 1_501 }, false])
  })

  test('belongs to its token, or to whoever authorize names', async () => {
    const gateway = await open({ access: 'tokens' })
    const queue = name()
    const headers = newKey()
    for (const id of ['one', 'other']) {
      const { token } = await env.lockstep.createToken({ name: name(), scopes: ['produce'] })
      const answer = await gateway.post(
        below(queue, '/jobs'),
        { id },
        { ...headers, authorization: `Bearer ${token}` },
      )
      expect(answer.json).toEqual({ stored: 1 })
    }
    const { post } = await open({ authorize: ({ headers }) => ({ actor: headers.get('x-user')! }) })
    for (const id of ['anna', 'ben'])
      expect((await post(below(queue, '/jobs'), { id }, { ...headers, 'x-user': id })).json).toEqual({
        stored: 1,
      })
    expect(await pushes(queue)).toBe(4)
  })

  test('tells how many a middleware has let through', async () => {
    const odd: ClientMiddleware = (call, next) => next(call.jobs.filter((_, at) => at % 2 === 1))
    const { post } = await open({ access: 'open' }, new Lockstep({ pool: env.pool, middleware: [odd] }))
    const queue = name()
    const headers = newKey()
    const jobs = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id }))
    for (let count = 0; count < 2; count += 1)
      expect((await post(below(queue, '/jobs'), { jobs }, headers)).json).toEqual({ stored: 2 })
  })

  test('counts for 24 hours', async () => {
    const { post } = await open()
    const queue = name()
    const headers = newKey()
    await post(below(queue, '/jobs'), { id: 'a' }, headers)
    const age = (hours: number) =>
      env.sql(
        `UPDATE lockstep.idempotency_keys SET noted_at = clock_timestamp() - $2 * interval '1 hour' WHERE key = $1`,
        [headers['idempotency-key'], hours],
      )
    await age(23)
    expect((await post(below(queue, '/jobs'), { id: 'b' }, headers)).status).toBe(422)
    await age(25)
    expect((await post(below(queue, '/jobs'), { id: 'b' }, headers)).json).toEqual({ stored: 1 })
    expect((await post(below(queue, '/jobs'), { id: 'a' }, headers)).status).toBe(422)
  })

  test.each(['', 'two words', 'x'.repeat(256), 'ä'])('400: %j', async (key) => {
    const { post } = await open()
    const answer = await post(below(name(), '/jobs'), { id: 'a' }, { 'idempotency-key': key })
    expect([answer.status, answer.json.code]).toEqual([400, 'LOCKSTEP_BAD_OPTION'])
  })
})

describe('trimming', () => {
  const note = 'SELECT digest, stored FROM lockstep.note_key($1, $2, $3, 1)'
  const digest = Buffer.from('x')

  test('deletes keys that no longer count, in bounded parts, as every worker and consumer does', async () => {
    await env.sql('DELETE FROM lockstep.idempotency_keys')
    await env.sql(`INSERT INTO lockstep.idempotency_keys (holder, key, digest, stored, noted_at)
      SELECT 'h', n::text, '', 1, clock_timestamp() - n * interval '1 hour' FROM generate_series(20, 30) n`)
    const [first] = await env.sql('SELECT lockstep.trim_keys(3)')
    expect(first).toEqual({ trim_keys: 3 })
    const database = new Database(env.pool, 'lockstep')
    expect(await new Trimming().run(database)).toMatchObject({ keys: 4 })
    const left = await env.sql('SELECT key FROM lockstep.idempotency_keys ORDER BY key')
    expect(left.map(({ key }) => key)).toEqual(['20', '21', '22', '23'])
  })

  test('leaves a key alone that is being used again, and waits for nobody', async () => {
    await env.sql(`INSERT INTO lockstep.idempotency_keys (holder, key, digest, stored, noted_at)
      VALUES ('h', 'again', '', 1, clock_timestamp() - interval '25 hours')`)
    const client = await env.pool.connect()
    try {
      await client.query('BEGIN')
      expect((await client.query(note, ['h', 'again', digest])).rows).toEqual([])
      expect(await env.sql('SELECT lockstep.trim_keys()')).toEqual([{ trim_keys: 0 }])
      await client.query('COMMIT')
    } finally {
      client.release()
    }
    expect(await env.sql('SELECT lockstep.trim_keys()')).toEqual([{ trim_keys: 0 }])
    expect(await env.sql(note, ['h', 'again', digest])).toEqual([{ digest, stored: 1 }])
  })

  test('a key that was found stays until the transaction ends that has found it', async () => {
    await env.sql(note, ['h', 'found', digest])
    const client = await env.pool.connect()
    try {
      await client.query('BEGIN')
      expect((await client.query(note, ['h', 'found', digest])).rows).toHaveLength(1)
      const deleted = await env.sql(
        "WITH k AS (SELECT ctid FROM lockstep.idempotency_keys WHERE key = 'found' FOR UPDATE SKIP LOCKED) SELECT FROM k",
      )
      expect(deleted).toEqual([])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })
})

test('the first push of a queue may name a key', async () => {
  const { post } = await open()
  const queue = defineQueue(name())
  expect((await post(below(queue.name, '/jobs'), { id: 'a' }, newKey())).json).toEqual({ stored: 1 })
})
