import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineQueue, Lockstep } from '../../../src/index.ts'
import { storedPayloads } from '../../support/stored-payloads.ts'
import { below, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

async function payloadsOf(queue: string): Promise<string[]> {
  const rows = await env.sql<{ text: string }>(
    `SELECT payload::text AS text FROM ${storedPayloads()} p JOIN lockstep.queues USING (queue_id) WHERE name = $1`,
    [queue],
  )
  return rows.map(({ text }) => text)
}

const count = async (queue: string) =>
  Number((await env.sql('SELECT count(*) FROM lockstep.waiting WHERE queue = $1', [queue]))[0]!.count)

describe('POST /queues/{queue}/jobs', () => {
  test('pushes one job, with all that it may say', async () => {
    const { post, get } = await open()
    const queue = name()
    const job = {
      id: 'order-1',
      payload: { status: 'paid' },
      score: 7.5,
      perform_in: '2100-01-01T00:00:00+01:00',
      lane: 3,
      tenant: 'acme',
      headers: { trace: 'x' },
    }
    const answer = await post(below(queue, '/jobs'), job)
    expect([answer.status, answer.json]).toEqual([200, { stored: 1 }])
    expect((await get(below(queue, '/jobs/order-1'))).json.jobs).toMatchObject([
      {
        id: 'order-1',
        perform_in: '2099-12-31T23:00:00.000Z',
        lane: 3,
        tenant: 'acme',
        payloads: [{ payload: { status: 'paid' }, score: 7.5, headers: { trace: 'x' }, cut: false }],
      },
    ])
  })

  test('R1: what is left out, or null, has its default', async () => {
    const { post, get } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), {
      jobs: [{ id: 7 }, { id: 'b', payload: null, score: null, lane: null }],
    })
    await post(below(queue, '/jobs'), { id: 'c', perform_in: 0, tenant: null, headers: null })
    const { jobs } = (await get(below(queue, '/jobs?by=id'))).json
    expect(jobs.map((one: { payloads: { payload: unknown }[] }) => one.payloads[0]!.payload)).toEqual([
      '',
      null,
      '',
    ])
    expect(jobs.map(({ id }: { id: string }) => id)).toEqual(['7', 'b', 'c'])
    expect(jobs[2].perform_in).toBe('1970-01-01T00:00:00.000Z')
  })

  test('pushes many, all or none', async () => {
    const { post } = await open()
    const queue = name()
    const jobs = Array.from({ length: 2_500 }, (_, at) => ({ id: `job ${at}`, payload: at }))
    expect((await post(below(queue, '/jobs'), { jobs })).json).toEqual({ stored: 2_500 })
    expect(await count(queue)).toBe(2_500)
    const bad = [...jobs.slice(0, 1_500).map(({ id }) => ({ id: `other ${id}` })), { id: 'x'.repeat(1_025) }]
    const refused = await post(below(queue, '/jobs'), { jobs: bad })
    expect([refused.status, refused.json.code, refused.json.field]).toEqual([
      422,
      'LOCKSTEP_BAD_JOB',
      'jobs[1500].id',
    ])
    expect(await count(queue)).toBe(2_500)
    expect((await post(below(queue, '/jobs'), { jobs: [] })).json).toEqual({ stored: 0 })
  })

  const NUMBERS = ['12345678901234567890', '1.0', '9007199254740993', '1e400', '-0', '0.10']

  test('R2: keeps the digits of payloads, and drops none of two that differ in them', async () => {
    const { post } = await open()
    const queue = name()
    for (const number of NUMBERS)
      await post(below(queue, '/jobs'), `{ "payload": {"v": [${number}, "1.0 \\" ]}"]}, "id": "a" }`)
    const jobs = NUMBERS.map((number) => `{"id": "b", "payload": 1, "payload" : [${number}]}`)
    await post(below(queue, '/jobs'), `{"jobs": [], "jobs": [${jobs}]}`)
    const shown = await env.sql('SELECT n::jsonb::text AS n FROM unnest($1::text[]) n', [NUMBERS])
    const digits = shown.map(({ n }) => n)
    const expected = digits.flatMap((number) => [`{"v": [${number}, "1.0 \\" ]}"]}`, `[${number}]`])
    expect((await payloadsOf(queue)).sort()).toEqual(expected.sort())
  })

  test('the definition of a queue gives its shards, its tenants and its schema', async () => {
    const queue = defineQueue(name(), {
      shards: 3,
      tenant: ({ id }) => String(id).split('-')[0]!,
      schema: z.object({ n: z.number() }),
    })
    const { post, get } = await open({ access: 'open', queues: [queue] })
    const refused = await post(below(queue.name, '/jobs'), { jobs: [{ id: 'a-1', payload: { n: 'x' } }] })
    expect([refused.status, refused.json.field]).toEqual([422, 'jobs[0].payload'])
    await post(below(queue.name, '/jobs'), { id: 'a-1', payload: { n: 1 } })
    expect((await get(below(queue.name, '/jobs'))).json.jobs).toMatchObject([{ tenant: 'a' }])
    expect((await get(below(queue.name, '/stats'))).json.stats).toMatchObject({ shards: 3, waiting: 1 })
  })

  test('R17 what has expired is not handed over, and what has not is, with the time shown until then', async () => {
    const { post, get } = await open()
    const queue = name()
    const at = '2100-01-01T00:00:00.000Z'
    await post(below(queue, '/jobs'), {
      jobs: [
        { id: 'a', payload: 'gone', expires_in: at },
        { id: 'b', payload: 'for ever', expires_in: null },
        { id: 'b', payload: 'in time', expires_in: Date.parse(at) },
      ],
    })
    const { jobs } = (await get(below(queue, '/jobs?by=id'))).json
    expect(jobs[0].payloads).toMatchObject([{ payload: 'gone', expires_in: at }])
    expect(jobs[1].payloads.map((one: { expires_in: unknown }) => one.expires_in).sort()).toEqual([at, null])
    await env.sql("UPDATE lockstep.jobs SET expires_in = now() - interval '1 s' WHERE id = 'a'")
    const claimed = (await post('/claim', { queues: queue, count: 9 })).json.jobs
    expect(claimed.map((job: { id: string; payloads: unknown[] }) => [job.id, job.payloads.length])).toEqual([
      ['b', 2],
    ])
    const before = await post(below(queue, '/jobs'), { id: 'c', perform_in: at, expires_in: '2099-12-31' })
    expect(before.json).toMatchObject({ status: 422, field: 'expires_in' })
  })

  test.each([
    ['{"id":""}', 'id', 'id is required and must not be empty'],
    ['{}', 'id', 'id is missing, or is neither text nor a number'],
    ['{"id":1e300}', 'id', 'id must be text, or a number that JavaScript represents exactly'],
    ['{"id":"a","scor":1}', 'scor', 'scor is unknown, did you mean `score`?'],
    ['{"id":"a","constructor":1}', 'constructor', 'constructor is unknown, the known ones are id, payload'],
    ['{"id":"a","__proto__":{}}', '__proto__', '__proto__ is unknown'],
    ['{"id":"a","score":"1"}', 'score', 'score must be a number, not "1"'],
    ['{"id":"a","score":1e999}', 'score', 'score'],
    ['{"id":"a","lane":1.5}', 'lane', 'lane must be a whole number, not 1.5'],
    ['{"id":"a","lane":-1}', 'lane', 'lane must be at least 0, not -1'],
    ['{"id":"a","lane":4294967296}', 'lane', 'lane must be at most 32767, not 4294967296'],
    ['{"id":"a","perform_in":"tomorrow"}', 'perform_in', 'perform_in must be a time such as'],
    ['{"id":"a","perform_in":"2026-02-31"}', 'perform_in', 'perform_in must be a time'],
    ['{"id":"a","expires_in":"2026-02-29T10:00:00Z"}', 'expires_in', 'expires_in must be a time'],
    ['{"id":"a","perform_in":[]}', 'perform_in', 'perform_in must be a time'],
    ['{"id":"a","perform_in":1e17}', 'perform_in', 'perform_in must be a time'],
    ['{"id":"a","perform_in":-99999999999999}', 'perform_in', 'perform_in must be in the years 1 to 9999'],
    ['{"id":"a","tenant":"a\\u0007"}', 'tenant', 'tenant must be well-formed text without control'],
    ['{"id":"a","headers":[]}', 'headers', 'headers must be an object, not an array'],
    ['{"id":"a\\u0000"}', 'id', 'id must be well-formed text without \\u0000'],
    ['{"id":"\\ud800"}', 'id', 'id must be well-formed text'],
    ['{"id":"a","payload":"\\u0000"}', 'payload', 'payload contains \\u0000'],
    ['{"id":"a","payload":1e200000}', 'payload', 'payload has the number 1e200000'],
    ['{"jobs":[{"id":"a"},{"id":"a","score":true}]}', 'jobs[1].score', 'jobs[1].score must be a number'],
    ['{"jobs":[{"id":"a"},7]}', 'jobs[1]', 'jobs[1] must be an object, not 7'],
    ['{"jobs":{"id":"a"}}', 'jobs', 'jobs must be an array, not an object'],
    ['{"jobs":[],"id":"a"}', 'id', 'id is unknown'],
    ['[{"id":"a"}]', undefined, 'the body must be an object, not an array'],
    ['"a"', undefined, 'the body must be an object, not "a"'],
    ['null', undefined, 'the body must be an object, not null'],
  ])('422: %s', async (body, field, detail) => {
    const { post } = await open()
    const queue = name()
    const answer = await post(below(queue, '/jobs'), body)
    expect(answer.json).toMatchObject({ status: 422, detail: expect.stringContaining(detail) })
    expect(answer.json.field).toBe(field)
    expect(answer.json.code).toMatch(/^LOCKSTEP_BAD_(OPTION|JOB)$/)
    expect(await env.sql('SELECT FROM lockstep.queues WHERE name = $1', [queue])).toEqual([])
  })

  test('409: a transaction that has pushed the id stays open; pushes that wait for it hold up no others', {
    tags: 'slow',
    timeout: 30_000,
  }, async () => {
    const pool = new pg.Pool({ connectionString: env.connectionString, max: 5 })
    onTestFinished(() => pool.end())
    const { post, get } = await open({ access: 'open' }, new Lockstep({ pool }))
    const jobs = below(name(), '/jobs')
    await post(jobs, { id: 'new' })
    const client = await env.pool.connect()
    onTestFinished(() => client.release())
    await client.query('BEGIN')
    await client.query(
      "SELECT lockstep.enqueue(name, 'held') FROM lockstep.queues ORDER BY queue_id DESC LIMIT 1",
    )
    let answered = 0
    const bodies = Array.from({ length: 8 }, (_, payload) => ({
      jobs: [{ id: 'held', payload }, { id: 'other' }],
    }))
    const held = [
      ...bodies.map((body) => post(jobs, body)),
      ...bodies.map((body, at) => post(jobs, body, { 'idempotency-key': `held-${at}` })),
      ...bodies.map((_, payload) => post(`${jobs}?wait=1`, { id: 'held', payload })),
    ]
    for (const one of held) void one.then(() => answered++)
    expect((await post(jobs, { id: 'free' })).status).toBe(200)
    expect((await get('/stats')).status).toBe(200)
    expect(answered).toBe(0)
    for (const { status, json, headers } of await Promise.all(held))
      expect([status, json.code, headers.get('retry-after')]).toEqual([409, 'LOCKSTEP_LOCKED', '1'])
    const pushing = bodies.map((body) => post(jobs, body))
    await client.query('COMMIT')
    for (const { json } of await Promise.all(pushing)) expect(json).toEqual({ stored: 2 })
  })

  test.each<Record<string, string>>([{}, { 'idempotency-key': 'anew' }])(
    'a queue that was deleted is made again: %j',
    async (headers) => {
      const { post } = await open()
      const queue = name()
      await post(below(queue, '/jobs'), { id: 'a' })
      await env.lockstep.delete(queue, { ids: ['a'] })
      await env.lockstep.deleteQueue(queue)
      expect((await post(below(queue, '/jobs'), { id: 'a' }, headers)).json).toEqual({ stored: 1 })
      expect(await count(queue)).toBe(1)
    },
  )

  test('413: more jobs than a call may have, and 422: a payload beyond 8 MiB', async () => {
    const { post } = await open({ access: 'open', maxJobs: 2, maxBody: 20 * 1024 * 1024 })
    const queue = name()
    const jobs = [{ id: 'a' }, { id: 'b' }]
    expect((await post(below(queue, '/jobs'), { jobs })).json).toEqual({ stored: 2 })
    const more = await post(below(queue, '/jobs'), { jobs: [...jobs, { id: 'c' }] })
    expect([more.status, more.json.code]).toEqual([413, 'LOCKSTEP_TOO_LARGE'])
    const large = await post(below(queue, '/jobs'), { id: 'd', payload: 'x'.repeat(8 * 1024 * 1024) })
    expect([large.status, large.json.field, large.json.code]).toEqual([422, 'payload', 'LOCKSTEP_BAD_JOB'])
  })

  test.each([
    "'; DROP TABLE lockstep.jobs; --",
    '<script>alert(1)</script>',
    '\u001b[31mred',
    '../..',
    'ä/😀?#%',
  ])('takes %j for an id, as it is', async (id) => {
    const { post, get } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), { id, payload: id })
    const [job] = (await post('/claim', { queues: queue })).json.jobs
    expect([job.id, job.payloads[0].payload]).toEqual([id, id])
    const found = await get(below(queue, `/jobs/${encodeURIComponent(id)}`))
    expect(found.json.jobs).toMatchObject([{ id, state: 'working', fence: job.fence, process: 0 }])
    expect(found.headers.get('x-content-type-options')).toBe('nosniff')
  })
})
