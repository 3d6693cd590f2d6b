import { describe, expect, test } from 'vitest'
import { defineQueue } from '../../../src/index.ts'
import { linesOf } from '../../web/site.ts'
import { below, type Gateway, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

interface Shown {
  readonly id: string
}

const idsOf = (jobs: readonly Shown[]) => jobs.map(({ id }) => id)

/** A queue with one shard and these jobs, each due a second after the one before it, an hour ago. */
async function queueWith(...ids: string[]): Promise<string> {
  const queue = defineQueue(name(), { shards: 1 })
  const start = Date.now() - 3_600_000
  await env.lockstep.enqueue(
    queue,
    ids.map((id, at) => ({ id, payload: id, performIn: start + at * 1_000, tenant: at % 2 ? 'odd' : null })),
  )
  return queue.name
}

/** Lets payloads die: each of these ids fails for the last time. */
async function bury({ post }: Gateway, queue: string, count: number): Promise<void> {
  const { jobs } = (await post('/claim', { queues: queue, count })).json
  const claims = jobs.map(({ id, fence }: { id: string; fence: string }) => ({
    queue,
    id,
    fence,
    error: `bad ${id}`,
  }))
  const { results } = (await post('/fail', { claims })).json
  expect(results).toEqual(claims.map(() => ({ held: true })))
}

describe('peek', () => {
  test('shows what is due, in its order, and claims nothing', async () => {
    const { get, post } = await open()
    const queue = await queueWith('c', 'a', 'b')
    await post(below(queue, '/jobs'), { id: 'later', perform_in: '2100-01-01' })
    expect(idsOf((await get(below(queue, '/peek'))).json.jobs)).toEqual(['c'])
    expect(idsOf((await get(below(queue, '/peek?count=9'))).json.jobs)).toEqual(['c', 'a', 'b'])
    expect((await get(below(queue, '/peek?payloads=0'))).json.jobs).toMatchObject([
      { id: 'c', state: 'waiting', retry_count: -1, payload_count: 1, payloads: [] },
    ])
    expect(idsOf((await post('/claim', { queues: queue, count: 9 })).json.jobs)).toEqual(['c', 'a', 'b'])
    expect((await get(below(queue, '/peek?count=9'))).json.jobs).toEqual([])
  })

  test('R17 leaves out what has expired, also where that comes first', async () => {
    const { get, post } = await open()
    const queue = name()
    const far = '2100-01-01'
    await post(below(queue, '/jobs'), {
      jobs: ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, expires_in: far })),
    })
    await post(below(queue, '/jobs'), { id: 'c', payload: 'lives' })
    await env.sql(
      "UPDATE lockstep.jobs SET expires_in = now() - interval '1 s' WHERE id IN ('a', 'b', 'c', 'e')",
    )
    for (const payloads of [0, 1, 2])
      expect(idsOf((await get(below(queue, `/peek?count=2&payloads=${payloads}`))).json.jobs)).toEqual([
        'c',
        'd',
      ])
  })
})

describe('find', () => {
  test('has each filter, and pages that begin where others ended', async () => {
    const gateway = await open()
    const queue = await queueWith('a', 'b', 'c', 'd', 'e')
    const found = async (query: string) =>
      idsOf((await gateway.get(below(queue, `/jobs?${query}`))).json.jobs)
    expect(await found('ids=b&ids=d&ids=x')).toEqual(['b', 'd'])
    expect(await found('id.from=b&id.to=d&direction=desc')).toEqual(['d', 'c', 'b'])
    expect(await found('tenant=odd')).toEqual(['b', 'd'])
    expect(await found('tenant=')).toEqual(['a', 'c', 'e'])
    expect(await found('perform_in.from=2100-01-01')).toEqual([])
    expect(await found(`perform_in.to=${Date.now()}&by=perform_in`)).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(await found('retry_count.from=0')).toEqual([])
    await gateway.post('/claim', { queues: queue })
    expect(await found('state=working')).toEqual(['a'])
    expect(await found('state=waiting&by=retry_count&limit=2')).toEqual(['b', 'c'])
    const seen: string[] = []
    for (let next: string | null = ''; next !== null; ) {
      const query: string = next === '' ? '' : `&after=${encodeURIComponent(next)}`
      const page = (await gateway.get(below(queue, `/jobs?by=id&limit=2${query}`))).json
      seen.push(...idsOf(page.jobs))
      next = page.next
    }
    expect(seen).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  test('leaves payloads out that are too long, and says so', async () => {
    const { get, post } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), {
      jobs: [
        { id: 'a', payload: 'x'.repeat(20_000) },
        { id: 'a', payload: 1 },
      ],
    })
    const [{ payloads }] = (await get(below(queue, '/jobs'))).json.jobs
    expect(payloads).toMatchObject([
      { cut: true, payload: null },
      { cut: false, payload: 1 },
    ])
    const [whole] = (await get(below(queue, '/jobs/a'))).json.jobs
    expect(whole.payloads[0].payload).toHaveLength(20_000)
    expect((await get(below(queue, '/jobs/a?length=1&payloads=1'))).json.jobs[0]).toMatchObject({
      payload_count: 2,
      payloads: [{ cut: true, payload: null }],
    })
  })

  test('an id that was pushed while it is in work is found twice', async () => {
    const { get, post } = await open()
    const queue = await queueWith('a')
    await post('/claim', { queues: queue })
    await post(below(queue, '/jobs'), { id: 'a', payload: 'next' })
    const { jobs } = (await get(below(queue, '/jobs/a'))).json
    expect(jobs).toMatchObject([
      { state: 'waiting', fence: null, lease_ends_at: null, payloads: [{ payload: 'next' }] },
      { state: 'working', process: 0, lease_ends_at: expect.any(String), payloads: [{ payload: 'a' }] },
    ])
  })
})

describe('the morgue', () => {
  const never = () => defineQueue(name(), { shards: 1, maxRetryCount: 0 })

  async function withDead(...ids: string[]): Promise<{ gateway: Gateway; queue: string }> {
    const queue = never()
    const gateway = await open({ access: 'open', queues: [queue] })
    await gateway.post(below(queue.name, '/jobs'), {
      jobs: ids.map((id, at) => ({ id, payload: id, score: at })),
    })
    await bury(gateway, queue.name, ids.length)
    return { gateway, queue: queue.name }
  }

  test('lists what died, with digits, filters and pages', async () => {
    const { gateway, queue } = await withDead('a', 'b', 'c')
    await gateway.post(below(queue, '/jobs'), '{"id":"d","payload":12345678901234567890}')
    await bury(gateway, queue, 1)
    const found = async (query: string) => (await gateway.get(below(queue, `/dead?${query}`))).json.payloads
    const [first] = await found('by=id')
    expect(first).toEqual({
      id: 'a',
      key: expect.stringMatching(/^[0-9a-f]{32}$/),
      tenant: null,
      score: 0,
      headers: null,
      error: 'bad a',
      died_at: expect.any(String),
      cut: false,
      payload: 'a',
    })
    expect(idsOf(await found('score.from=1&score.to=2&by=score'))).toEqual(['b', 'c'])
    expect(idsOf(await found(`ids=a&ids=b&keys=${first.key}`))).toEqual(['a'])
    expect(await found('died_at.to=2020-01-01')).toEqual([])
    expect((await gateway.get(below(queue, '/dead?ids=d'))).text).toContain('"payload":12345678901234567890')
    const page = (await gateway.get(below(queue, '/dead?by=id&limit=3'))).json
    expect(idsOf(await found(`by=id&after=${encodeURIComponent(page.next)}`))).toEqual(['d'])
  })

  test('R5: requeues some by id, filter or key, or all, and deletes for good', async () => {
    const { gateway, queue } = await withDead('a', 'b', 'c', 'd', 'e')
    const act = async (what: string, body: object) =>
      linesOf(await gateway.post(below(queue, `/dead/${what}`), body)).at(-1)
    const dead = async () => idsOf((await gateway.get(below(queue, '/dead?by=id'))).json.payloads)
    expect(await act('requeue', { ids: ['a'] })).toEqual({ result: { done: 1, total: 1 } })
    expect(await act('delete', { filter: { id: { from: 'b', to: 'b' } } })).toEqual({
      result: { done: 1, total: 1 },
    })
    expect(await dead()).toEqual(['c', 'd', 'e'])
    const [{ key }] = (await gateway.get(below(queue, '/dead?ids=c'))).json.payloads
    expect(await act('delete', { filter: { ids: ['c', 'd'], keys: [key] } })).toEqual({
      result: { done: 1, total: 1 },
    })
    expect(await act('requeue', { filter: { died_at: { to: '2020-01-01' } } })).toEqual({
      result: { done: 0, total: 0 },
    })
    expect(await act('requeue', { filter: { tenant: 'x' } })).toEqual({ result: { done: 0, total: 0 } })
    expect(await act('requeue', { filter: { score: { from: 3 } } })).toEqual({
      result: { done: 2, total: 2 },
    })
    expect(await dead()).toEqual([])
    expect(idsOf((await gateway.get(below(queue, '/jobs?by=id'))).json.jobs)).toEqual(['a', 'd', 'e'])
    expect(await act('delete', { all: true })).toEqual({ result: { done: 0, total: 0 } })
  })

  test.each([
    ['{}', 'the body must have exactly one of ids, filter and all'],
    ['{"ids":["a"],"all":true}', 'the body must have exactly one of ids, filter and all'],
    ['{"all":false}', 'all must be true, not false'],
    ['{"filter":{}}', 'filter must not be empty: say all: true for everything'],
    ['{"filter":{"ids":"a"}}', 'filter.ids must be an array, not "a"'],
    ['{"filter":{"id":{"form":"a"}}}', 'filter.id.form is unknown, did you mean `from`?'],
    ['{"filter":{"id":{}}}', 'filter.id has neither from nor to: give one, or leave it out'],
    ['{"filter":{"died_at":{}}}', 'filter.died_at has neither from nor to'],
    ['{"filter":{"score":{},"tenant":"a"}}', 'filter.score has neither from nor to'],
    ['{"filter":{"id":{"from":""}}}', 'filter.id.from must not be empty'],
    ['{"filter":{"digests":["a"]}}', 'filter.digests is unknown'],
    ['{"filter":{"died_at":{"from":"x"}}}', 'filter.died_at.from must be a time'],
  ])('422: requeue %s', async (body, detail) => {
    const { post } = await open()
    const queue = await queueWith()
    const answer = await post(below(queue, '/dead/requeue'), body)
    expect(answer.json).toMatchObject({ status: 422, detail: expect.stringContaining(detail) })
  })
})

describe('a queue', () => {
  test('is counted, and a new one is seen at once', async () => {
    const gateway = await open()
    const queue = await queueWith('a', 'b')
    expect((await gateway.get('/stats')).json.queues).toContainEqual(
      expect.objectContaining({ queue, waiting: 2, due: 2, paused_at: null }),
    )
    const other = await queueWith('a')
    expect((await gateway.get(below(other, '/stats'))).json.stats).toMatchObject({ waiting: 1 })
    const { lag } = (await gateway.get(below(queue, '/stats'))).json.stats
    expect(lag).toBeGreaterThan(3_500)
    expect(lag).toBeLessThan(3_700)
  })

  test('is paused and resumed, with a body or without one', async () => {
    const { post, get, site } = await open()
    const queue = await queueWith('a')
    expect((await post(below(queue, '/pause'))).json).toEqual({ queue, paused: true })
    expect((await get(below(queue, '/stats'))).json.stats.paused_at).not.toBe(null)
    expect((await post('/claim', { queues: queue })).json.jobs).toEqual([])
    const resumed = await site.ask(`/v1${below(queue, '/resume')}`, { method: 'POST' })
    expect(resumed.json).toEqual({ queue, paused: false })
    expect(idsOf((await post('/claim', { queues: queue, wait: 10 })).json.jobs)).toEqual(['a'])
    expect((await post(below(queue, '/pause'), { now: true })).status).toBe(422)
  })

  test('is resharded, under the name of who did it', async () => {
    const { post, get } = await open({ authorize: () => ({ actor: 'anna' }) })
    const queue = await queueWith(...Array.from({ length: 30 }, (_, at) => `${at}`))
    expect(linesOf(await post(below(queue, '/reshard'), { shards: 8 })).at(-1)).toMatchObject({ result: {} })
    const last = linesOf(await post(below(queue, '/reshard'), { shards: 1 })).at(-1)
    expect(last.result.done).toBe(last.result.total)
    expect((await get(below(queue, '/stats'))).json.stats.shards).toBe(1)
    expect(await env.lockstep.audit({ limit: 1 })).toMatchObject([{ by: 'anna', action: 'reshard', queue }])
    for (const shards of [0, 16_385, 1.5, '2'])
      expect((await post(below(queue, '/reshard'), { shards })).json).toMatchObject({
        status: 422,
        field: 'shards',
      })
    expect((await post(below(queue, '/reshard'), {})).json.detail).toBe('shards is missing')
  })
})
