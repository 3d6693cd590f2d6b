import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { API, ROUTES } from '../../src/web/api/api.ts'
import { OPENAPI, type OpenApi } from '../../src/web/api/openapi.ts'
import { lockstepWeb } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { type Answer, linesOf, type Site, serve } from './site.ts'

const API_DOC: OpenApi = OPENAPI
const ajv = new Ajv2020({ strict: false, allErrors: true })
// It exports the function as CommonJS does.
;(addFormats as unknown as (to: Ajv2020) => void)(ajv)
ajv.addSchema(JSON.parse(JSON.stringify(OPENAPI)), 'api')

function validator(pointer: string): ValidateFunction {
  return ajv.compile({ $ref: `api#${pointer}` })
}

function schemaOf(name: string): ValidateFunction {
  return validator(`/components/schemas/${name}`)
}

function conforms(validate: ValidateFunction, value: unknown): void {
  validate(value)
  expect(validate.errors ?? []).toEqual([])
}

const escaped = (part: string) => part.replaceAll('~', '~0').replaceAll('/', '~1')

let env: StoreEnvironment
let queue: TestQueue
let site: Site
/** Paths whose answers were checked. */
const checked = new Set<string>()

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())
beforeEach(async () => {
  queue = await env.queue({ shards: 2 })
  site = await serve(lockstepWeb(env.lockstep, { access: 'open' }).node)
})

const pathOf = (route: string) => `${API}${route.replace('{queue}', encodeURIComponent(queue.queue.name))}`

/** The answer to GET, which is as the description says. */
async function look(route: string, query = ''): Promise<Answer> {
  const answer = await site.ask(`${pathOf(route)}${query}`)
  const media = answer.status === 200 ? 'application~1json' : 'application~1problem+json'
  expect(answer.headers.get('content-type')).toContain(media.replace('~1', '/'))
  if (answer.status !== 200) conforms(schemaOf('Problem'), answer.json)
  else {
    const place = `/paths/${escaped(route)}/get/responses/200/content/${media}/schema`
    conforms(validator(place), answer.json)
    checked.add(`get ${route}`)
  }
  return answer
}

/** The lines of the answer to an action, which are as the description says. */
async function act(route: string, body: unknown): Promise<ReturnType<typeof linesOf>> {
  const operation = API_DOC.paths[route]!.post!
  const request =
    operation.requestBody &&
    validator(`/paths/${escaped(route)}/post/requestBody/content/application~1json/schema`)
  if (request) conforms(request, body)
  const answer = await site.act(pathOf(route), body)
  expect([answer.status, answer.text]).toEqual([200, answer.text])
  const media = request ? 'application~1x-ndjson' : 'application~1json'
  expect(answer.headers.get('content-type')).toContain(media.replace('~1', '/'))
  const validate = validator(`/paths/${escaped(route)}/post/responses/200/content/${media}/schema`)
  for (const line of linesOf(answer)) conforms(validate, line)
  checked.add(`post ${route}`)
  return linesOf(answer)
}

/** The problem that an action is refused with. */
async function refused(
  route: string,
  body: unknown,
): Promise<{ status: number; code: string; detail: string }> {
  const { json } = await site.act(pathOf(route), body)
  conforms(schemaOf('Problem'), json)
  return json
}

async function die(...ids: string[]): Promise<void> {
  await queue.push(...ids.map((id) => ({ id, payload: `dead ${id}`, score: 1 })))
  await env.lockstep.kill(queue.queue, { ids })
}

/** A process that holds the lock of a shard, beside its own, as workers do. Returns its number. */
async function serveShard(shard: number): Promise<number> {
  const { processId } = await queue.claimer()
  const session = await env.session()
  const lock = (table: string, number: number) =>
    session.query(`SELECT pg_advisory_lock('lockstep.${table}'::regclass::oid::integer, $1)`, [number])
  await lock('processes', processId)
  await lock('jobs', queue.queueId * 16_384 + shard)
  return processId
}

describe('looking', () => {
  it('lists queues, and shows one with its shards and their owners', async () => {
    await queue.push({ id: 'a', performIn: 0 }, { id: 'b', performIn: Date.now() + 60_000 })
    const owners = [await serveShard(1), await serveShard(0)].reverse()
    const { json } = await look('/queues/{queue}')
    expect(json.stats).toMatchObject({
      queue: queue.queue.name,
      shards: 2,
      waiting: 2,
      due: 1,
      pausedAt: null,
    })
    expect(json.shards).toHaveLength(2)
    expect(json.shards.map(({ processId }: { processId: number }) => processId)).toEqual(owners)
    const [a, b] = [await queue.job('a'), await queue.job('b')]
    expect(json.shards[a.shard]).toMatchObject({ due: 1 })
    expect(json.shards[a.shard].lag).toBeGreaterThan(1_000)
    expect(json.shards[b.shard].waiting).toBe(a.shard === b.shard ? 2 : 1)
    const all = await look('/queues')
    expect(all.json.queues).toContainEqual(json.stats)
    expect(Date.parse(all.json.at)).toBeLessThanOrEqual(Date.now())
  })

  it('answers /stats like Lowkiq: ids, and seconds', async () => {
    await queue.push(
      { id: 'a', payload: 1, performIn: Date.now() - 90_000 },
      { id: 'a', payload: 2 },
      { id: 'b', performIn: Date.now() + 60_000 },
    )
    await env.query(
      `INSERT INTO lockstep.morgue (queue_id, job_id, digest, shard, payload, score, died_at)
       SELECT $1, 'dead', sha256(n::text::bytea), 0, to_jsonb(n), n, now() FROM generate_series(1, 3) n`,
      [queue.queueId],
    )
    const { json } = await look('/stats')
    expect(json.by_worker[queue.queue.name]).toMatchObject({ length: 2, morgue_length: 1 })
    expect(json.by_worker[queue.queue.name].lag).toBeCloseTo(90, -1)
    const state = await env.lockstep.stats()
    expect(json.total.length).toBe(state.total.waiting)
    expect(json.total.morgue_length).toBe(1)
    expect(json.total.lag).toBeGreaterThanOrEqual(json.by_worker[queue.queue.name].lag)
  })

  it('finds jobs by each filter, in each order, page by page', async () => {
    const at = Date.parse('2100-01-01T00:00:00Z')
    await queue.push(...[1, 2, 3, 4].map((n) => ({ id: `job ${n}`, payload: n, performIn: at + n * 1_000 })))
    await env.query("UPDATE lockstep.jobs SET retry_count = 2 WHERE queue_id = $1 AND id = 'job 2'", [
      queue.queueId,
    ])
    const ids = async (query: string) =>
      (await look('/queues/{queue}/jobs', query)).json.items.map(({ id }: { id: string }) => id)
    expect(await ids('')).toEqual(['job 1', 'job 2', 'job 3', 'job 4'])
    expect(await ids('?ids=job+3&ids=job%201&ids=none')).toEqual(['job 1', 'job 3'])
    expect(await ids('?id.from=job+2&id.to=job+3')).toEqual(['job 2', 'job 3'])
    expect(await ids(`?performIn.from=${at + 3_000}`)).toEqual(['job 3', 'job 4'])
    expect(await ids('?performIn.to=2100-01-01T01:00:01%2B01:00')).toEqual(['job 1'])
    expect(await ids('?retryCount.from=0')).toEqual(['job 2'])
    expect(await ids('?retryCount.to=-1&direction=desc')).toEqual(['job 4', 'job 3', 'job 1'])
    expect(await ids('?by=retryCount&direction=desc&limit=1')).toEqual(['job 2'])
    expect(await ids('?state=working')).toEqual([])
    const first = await look('/queues/{queue}/jobs', '?limit=3')
    expect(first.json.items).toHaveLength(3)
    const second = await look('/queues/{queue}/jobs', `?limit=3&after=${first.json.next}`)
    expect(second.json).toMatchObject({ items: [{ id: 'job 4' }], next: null })
    expect((await look('/queues/{queue}/jobs/count', '?retryCount.to=-1')).json).toEqual({
      count: 3,
      more: false,
    })
  })

  it('finds by tenant, acts by tenant, and lists the tenants of a queue', async () => {
    const performIn = Date.parse('2100-01-01T00:00:00Z')
    await queue.push(
      { id: 'a', tenant: 'acme & co', performIn },
      { id: 'b', performIn },
      { id: 'c', tenant: 'acme & co', performIn },
      { id: 'd', tenant: 'bolt', performIn },
    )
    const ids = async (route: string, query: string) =>
      (await look(route, query)).json.items.map(({ id }: { id: string }) => id)
    const ACME = `?tenant=${encodeURIComponent('acme & co')}`
    expect(await ids('/queues/{queue}/jobs', ACME)).toEqual(['a', 'c'])
    expect(await ids('/queues/{queue}/jobs', '?tenant=')).toEqual(['b'])
    expect((await look('/queues/{queue}/jobs/count', ACME)).json.count).toBe(2)
    expect((await look('/queues/{queue}/job', '?id=d')).json.items).toMatchObject([
      { tenant: 'bolt', lane: 0 },
    ])
    const { at, ...tenants } = (await look('/queues/{queue}/tenants')).json
    expect(tenants).toMatchObject({
      ...{ total: 2, rules: [] },
      items: [
        { tenant: 'acme & co', waiting: 2, lane: 0, throttled: false },
        { tenant: 'bolt', waiting: 1 },
      ],
    })
    await act('/queues/{queue}/jobs/kill', { filter: { tenant: 'acme & co' } })
    expect(await ids('/queues/{queue}/dead', ACME)).toEqual(['a', 'c'])
    expect(await ids('/queues/{queue}/dead', '?tenant=')).toEqual([])
    expect((await look('/queues/{queue}/tenants')).json).toMatchObject({ total: 1, rules: [] })
    await act('/queues/{queue}/dead/delete', { filter: { tenant: 'acme & co' } })
    await act('/queues/{queue}/jobs/delete', { filter: { tenant: null } })
    expect(await ids('/queues/{queue}/jobs', '')).toEqual(['d'])
    expect(await refused('/queues/{queue}/jobs/delete', { filter: { tenant: '' } })).toMatchObject({
      detail: expect.stringMatching(/tenant must be well-formed text, or null/),
    })
  })

  it('shows payloads with all digits, and no more of them than was asked for', async () => {
    const payload = '{"n": 12345678901234567890.5, "tiny": 1e-400, "text": "äöü😀"}'
    await env.query("SELECT lockstep.enqueue($1, 'big', $2::jsonb, score => 0.1)", [
      queue.queue.name,
      payload,
    ])
    await queue.push({ id: 'big', payload: 'second', score: 2, headers: { trace: 'x' } })
    const { json } = await look('/queues/{queue}/job', '?id=big')
    expect(json.items).toHaveLength(1)
    const [{ payloads }] = json.items
    expect(payloads.count).toBe(2)
    expect(payloads.first[0]).toMatchObject({ score: 0.1, headers: null, cut: false })
    expect(payloads.first[0].json).toContain('12345678901234567890.5')
    expect(payloads.first[0].json).toMatch(/"tiny": 0\.0{399}1\b/)
    expect(payloads.first[1]).toEqual({
      json: '"second"',
      cut: false,
      score: 2,
      headers: { trace: 'x' },
      expiresIn: null,
    })
    const short = await look('/queues/{queue}/job', '?id=big&payloads=1&length=3')
    expect(short.json.items[0].payloads).toEqual({
      count: 2,
      first: [
        { json: payloads.first[0].json.slice(0, 3), cut: true, score: 0.1, headers: null, expiresIn: null },
      ],
    })
    const listed = await look('/queues/{queue}/jobs', '?payloads=0')
    expect(listed.json.items[0].payloads).toEqual({ count: 2, first: [] })
    await env.lockstep.kill(queue.queue, {})
    const dead = await look('/queues/{queue}/dead', '?by=score&length=40')
    expect(dead.json.items[0]).toMatchObject({ id: 'big', score: 0.1, payload: { cut: true } })
    expect(dead.json.items[0].payload.json).toHaveLength(40)
    expect((await look('/queues/{queue}/dead')).json.items[0].payload.json).toContain(
      '12345678901234567890.5',
    )
  })

  it('R17 shows when payloads expire, and how many have', async () => {
    const expiresIn = Date.parse('2500-01-01')
    await queue.push({ id: 'a', payload: 1, score: 1, expiresIn }, { id: 'a', payload: 2, score: 2 })
    const { json } = await look('/queues/{queue}/job', '?id=a')
    expect(json.items[0].payloads.first).toMatchObject([
      { expiresIn: '2500-01-01T00:00:00.000Z' },
      { expiresIn: null },
    ])
    expect((await look('/queues/{queue}')).json.stats).toMatchObject({ expired: 0 })
  })

  it('shows both entries of a job that is in work and was pushed meanwhile', async () => {
    await queue.push({ id: 'a', payload: 1 }, { id: 'gone' })
    const claimer = await queue.claimer()
    for (const shard of [0, 1]) await claimer.claim({ shard, batchSize: 1 })
    await queue.push({ id: 'a', payload: 2 })
    const { json } = await look('/queues/{queue}/job', '?id=a')
    const shown = json.items.map(({ state, payloads, claimedAt }: never) => [
      state,
      (payloads as { first: { json: string }[] }).first.map((one) => one.json),
      claimedAt !== null,
    ])
    expect(shown.sort()).toEqual([
      ['waiting', ['2'], false],
      ['working', ['1'], true],
    ])
    const missing = await look('/queues/{queue}/job', '?id=nobody')
    expect([missing.status, missing.json.code]).toEqual([404, 'LOCKSTEP_UNKNOWN_JOB'])
  })

  it('finds and counts dead payloads by each filter', async () => {
    await die('a', 'b', 'c')
    await env.query(
      "UPDATE lockstep.morgue SET died_at = '2020-01-01Z', score = 7 WHERE queue_id = $1 AND job_id = 'b'",
      [queue.queueId],
    )
    const ids = async (query: string) =>
      (await look('/queues/{queue}/dead', query)).json.items.map(({ id }: { id: string }) => id)
    expect(await ids('')).toEqual(['b', 'a', 'c'])
    expect(await ids('?by=id&direction=desc')).toEqual(['c', 'b', 'a'])
    expect(await ids('?ids=a')).toEqual(['a'])
    expect(await ids('?id.from=b&by=id')).toEqual(['b', 'c'])
    expect(await ids('?diedAt.to=2020-01-02')).toEqual(['b'])
    expect(await ids('?score.from=2.5')).toEqual(['b'])
    const [{ key }] = (await look('/queues/{queue}/dead', '?ids=c')).json.items
    expect(await ids(`?ids=c&ids=a&keys=${key}`)).toEqual(['c'])
    expect((await look('/queues/{queue}/dead/count', '?score.to=1')).json).toEqual({ count: 2, more: false })
  })

  it('counts exactly up to 100,000', { tags: 'slow' }, async () => {
    await env.query(
      `INSERT INTO lockstep.morgue (queue_id, job_id, digest, shard, payload, score, died_at)
       SELECT $1, n::text, sha256(n::text::bytea), 0, to_jsonb(n), n, now() FROM generate_series(1, 100001) n`,
      [queue.queueId],
    )
    expect((await look('/queues/{queue}/dead/count')).json).toEqual({ count: 100_000, more: true })
    expect((await look('/queues/{queue}/dead/count', '?score.to=100000')).json).toEqual({
      count: 100_000,
      more: false,
    })
    await env.query('DELETE FROM lockstep.morgue WHERE queue_id = $1', [queue.queueId])
  })

  it('shows the minutes of the last day, and processes', async () => {
    await env.query(
      `INSERT INTO lockstep.minute_counters (queue_id, minute, processed, failed)
       SELECT $1, date_trunc('minute', now()) - n * interval '1 hour', n, 1 FROM unnest(ARRAY[2, 1, 25]) n`,
      [queue.queueId],
    )
    const { items } = (await look('/queues/{queue}/minutes')).json
    expect(
      items.map(({ processed, failed }: { processed: number; failed: number }) => [processed, failed]),
    ).toEqual([
      [2, 1],
      [1, 1],
    ])
    expect(new Date(items[1].minute).getTime() - new Date(items[0].minute).getTime()).toBe(3_600_000)
    const { processId } = await queue.claimer()
    const shown = (await look('/processes')).json.items
    expect(shown).toContainEqual(expect.objectContaining({ processId, host: 'here', quiet: false }))
  })

  it('tells the session, and describes itself', async () => {
    expect((await look('/session')).json).toMatchObject({ actor: null, base: '', readOnly: false })
    const described = (await look('/openapi.json')).json
    expect(described).toEqual(JSON.parse(JSON.stringify(OPENAPI)))
    expect(await new Validator().validate(described)).toEqual({ valid: true })
  })

  it('names may contain anything', async () => {
    const name = 'a/b %2F? ü;#+'
    await env.query('SELECT lockstep.create_queue($1)', [name])
    const { json } = await site.ask(`${API}/queues/${encodeURIComponent(name)}`)
    expect(json.stats.queue).toBe(name)
    await site.act(`${API}/queues/${encodeURIComponent(name)}/pause`)
    const { queues } = await env.lockstep.stats()
    expect(queues.find((one) => one.queue === name)!.pausedAt).not.toBeNull()
  })
})

describe('acting', () => {
  const inAnHour = () => Date.now() + 3_600_000

  it('performs now what is named', async () => {
    await queue.push({ id: 'a', performIn: inAnHour() }, { id: 'b', performIn: inAnHour() })
    expect(await act('/queues/{queue}/jobs/perform-now', { ids: ['a', 'none'] })).toEqual([
      { done: 0, total: 1 },
      { done: 1, total: 1 },
      { result: { done: 1, total: 1 } },
    ])
    const [a, b] = [await queue.job('a'), await queue.job('b')]
    expect(a.performIn).toBeLessThanOrEqual(Date.now() + 1_000)
    expect(b.performIn).toBeGreaterThan(Date.now() + 1_000_000)
  })

  it('deletes what a filter matches', async () => {
    const at = inAnHour()
    await queue.push({ id: 'a', performIn: at }, { id: 'b', performIn: at + 5_000 }, { id: 'c' })
    const filter = { performIn: { from: new Date(at).toISOString(), to: at + 1_000 }, retryCount: { to: -1 } }
    const lines = await act('/queues/{queue}/jobs/delete', { filter })
    expect(lines.at(-1)).toEqual({ result: { done: 1, total: 1 } })
    expect([await queue.findJob('a'), await queue.countJobs()]).toEqual([undefined, 2])
  })

  it('kills all, requeues and deletes what died', async () => {
    await queue.push({ id: 'a', payload: 1 }, { id: 'b', payload: 2 }, { id: 'c', payload: 3 })
    expect((await act('/queues/{queue}/jobs/kill', { all: true })).at(-1)).toEqual({
      result: { done: 3, total: 3 },
    })
    expect(await queue.countJobs()).toBe(0)
    const [{ key }] = (await look('/queues/{queue}/dead', '?ids=a')).json.items
    await act('/queues/{queue}/dead/requeue', { filter: { ids: ['a', 'b'], keys: [key] } })
    expect(await queue.set('a')).toHaveLength(1)
    const until = { filter: { diedAt: { to: new Date().toISOString() }, ids: ['b'] } }
    expect((await act('/queues/{queue}/dead/delete', until)).at(-1)).toEqual({
      result: { done: 1, total: 1 },
    })
    expect([await queue.dead('b'), (await queue.dead('c')).length]).toEqual([[], 1])
  })

  it('tells a worker process to be quiet, and to stop; one that is unknown is named', async () => {
    const { processId } = await queue.claimer()
    const paths = { quiet: '/processes/{process}/quiet', stop: '/processes/{process}/stop' }
    for (const [request, path] of Object.entries(paths)) {
      const { status, json } = await site.act(`${API}${path.replace('{process}', String(processId))}`)
      expect([status, json]).toEqual([200, { processId, request }])
      conforms(validator(`/paths/${escaped(path)}/post/responses/200/content/application~1json/schema`), json)
      checked.add(`post ${path}`)
      const found = (await env.lockstep.processes()).find((one) => one.processId === processId)
      expect(found).toMatchObject({ request })
    }
    expect(await env.lockstep.audit({ limit: 1 })).toMatchObject([
      { by: 'web page', action: 'stop', queue: null, details: { processId } },
    ])
    for (const [wrong, status] of [
      ['2147483647', 404],
      ['0', 400],
      ['x', 400],
    ] as const)
      expect((await site.act(`${API}/processes/${wrong}/stop`)).status).toBe(status)
  })

  it('pauses, resumes and reshards a queue', async () => {
    const state = async () =>
      (await env.lockstep.stats()).queues.find((one) => one.queue === queue.queue.name)!
    expect(await act('/queues/{queue}/pause', {})).toEqual([{ queue: queue.queue.name, paused: true }])
    expect((await state()).pausedAt).not.toBeNull()
    expect(await act('/queues/{queue}/resume', {})).toEqual([{ queue: queue.queue.name, paused: false }])
    expect((await state()).pausedAt).toBeNull()
    expect((await act('/queues/{queue}/reshard', { shards: 7 })).at(-1)).toEqual({
      result: { done: 0, total: 0 },
    })
    expect((await state()).shards).toBe(7)
  })

  it('deletes a queue, with its jobs if that is said', async () => {
    await queue.push({ id: 'a' })
    expect(await refused('/queues/{queue}/delete', {})).toMatchObject({
      status: 409,
      code: 'LOCKSTEP_QUEUE_NOT_EMPTY',
    })
    expect(await queue.countJobs()).toBe(1)
    expect((await act('/queues/{queue}/delete', { withJobs: true })).at(-1)).toEqual({
      result: { done: 1, total: 1 },
    })
    expect((await env.lockstep.stats()).queues.map((one) => one.queue)).not.toContain(queue.queue.name)
    expect((await look('/queues/{queue}/jobs')).status).toBe(404)
  })
})

describe('refusals', () => {
  it.each([
    ['/queues/{queue}/jobs', 'retries=1', /unknown option `retries`/],
    ['/queues/{queue}/jobs', 'performIn.form=1', /did you mean `performIn.from`/],
    ['/queues/{queue}/jobs', 'performIn.from=yesterday', /performIn.from must be a time/],
    ['/queues/{queue}/jobs', 'performIn.from=2011-10-11T13:45:40', /with its zone/],
    ['/queues/{queue}/jobs', 'performIn.to=99999999999999999', /must be a time/],
    ['/queues/{queue}/jobs', 'retryCount.from=1.5', /whole number from -1/],
    ['/queues/{queue}/jobs', 'retryCount.to=99999999999', /whole number from -1/],
    ['/queues/{queue}/jobs', 'state=dead', /state must be waiting or working/],
    ['/queues/{queue}/jobs', 'state=waiting&state=working', /state is given twice/],
    ['/queues/{queue}/jobs', 'by=score', /by must be id or performIn/],
    ['/queues/{queue}/jobs', 'direction=up', /direction must be asc or desc/],
    ['/queues/{queue}/jobs', 'limit=1001', /limit must be a whole number from 1 to 1000/],
    ['/queues/{queue}/jobs', 'limit=', /limit must be a whole number/],
    ['/queues/{queue}/jobs', 'after=nonsense', /after must be the `next` of an earlier page/],
    ['/queues/{queue}/jobs', 'payloads=-1', /payloads must be a whole number/],
    ['/queues/{queue}/jobs', 'length=99999999', /length must be a whole number/],
    ['/queues/{queue}/jobs', 'ids=a%00b', /ids\[0\] must be well-formed text/],
    ['/queues/{queue}/jobs/count', 'limit=1', /unknown option `limit`/],
    ['/queues/{queue}/job', '', /id is missing/],
    ['/queues/{queue}/job', 'id=', /id must not be empty/],
    ['/queues/{queue}/dead', 'score.from=Infinity', /score.from must be a number/],
    ['/queues/{queue}/dead', 'score.from=', /score.from must be a number/],
    ['/queues/{queue}/dead', 'digests=abc', /unknown option `digests`/],
    ['/queues/{queue}/dead', 'ids=a&keys=abc', /keys\[0\] must be 32 hexadecimal digits/],
    ['/queues/{queue}/dead', `keys=${'0'.repeat(32)}`, /keys need the ids of their jobs/],
    ['/queues/{queue}/dead', 'score.from=0x10', /score.from must be a number/],
    ['/queues/{queue}/dead', 'after=nonsense', /after must be the `next` of an earlier page/],
    ['/queues/{queue}/dead', 'payloads=1', /unknown option `payloads`/],
    ['/queues/{queue}/dead/count', 'state=waiting', /unknown option `state`/],
    ['/stats', 'x=1', /unknown option `x`/],
    ['/queues', 'x=1', /unknown option/],
    ['/processes', 'x=1', /unknown option/],
    ['/queues/{queue}', 'x=1', /unknown option/],
    ['/queues/{queue}/minutes', 'x=1', /unknown option/],
    ['/queues/{queue}/tenants', 'limit=1', /unknown option/],
    ['/queues/{queue}/jobs', 'tenant=a&tenant=b', /tenant is given twice/],
  ])('%s?%s is 400, with the reason', async (route, query, reason) => {
    const { status, json } = await look(route, `?${query}`)
    expect(json).toMatchObject({ status: 400, code: 'LOCKSTEP_BAD_OPTION' })
    expect([status, json.detail]).toEqual([400, expect.stringMatching(reason)])
  })

  const JOBS = '/queues/{queue}/jobs/delete'
  const DEAD = '/queues/{queue}/dead/delete'
  it.each([
    [JOBS, {}, /by one of `ids`, `filter`, or `all: true`/],
    [JOBS, { filter: {} }, /filter must not be empty: .* `all: true`/],
    [JOBS, { filter: { state: 'waiting' }, all: true }, /by one of/],
    [JOBS, { all: false }, /all must be true/],
    [JOBS, { ids: 'a' }, /ids must be an array/],
    [JOBS, { ids: null }, /ids must be an array/],
    [JOBS, { ids: [1] }, /ids\[0\] must be well-formed text/],
    [JOBS, { filter: [] }, /filter must be an object/],
    [JOBS, { filter: { performIn: { from: 'x' } } }, /performIn.from must be a time/],
    [JOBS, { filter: { performIn: { from: null } } }, /performIn.from must be a time/],
    [JOBS, { filter: { performIn: {} } }, /performIn has neither from nor to/],
    [JOBS, { filter: { performIn: '2020' } }, /performIn must be a range/],
    [JOBS, { filter: { retryCount: { from: 99999999999 } } }, /retryCount.from must be a whole number/],
    [JOBS, { filter: { diedAt: { from: 1 } } }, /unknown option `diedAt`/],
    [JOBS, { filters: {} }, /did you mean `filter`/],
    [JOBS, '[]', /the body must be a JSON object, not an array/],
    [JOBS, '{', /the body is not JSON/],
    [JOBS, '', /by one of/],
    [DEAD, { filter: { retryCount: { from: 1 } } }, /unknown option `retryCount`/],
    [DEAD, { filter: { digests: ['x'] } }, /name dead payloads by `keys`/],
    [DEAD, { filter: { ids: ['a'], keys: ['x'] } }, /keys\[0\] must be 32 hexadecimal digits/],
    [DEAD, { filter: { score: { from: '1' } } }, /score.from must be a number/],
    ['/queues/{queue}/pause', { now: true }, /unknown option `now`/],
    ['/queues/{queue}/reshard', {}, /shards must be a whole number from 1 to 16384/],
    ['/queues/{queue}/reshard', { shards: 0 }, /shards must be a whole number/],
    ['/queues/{queue}/delete', { withJobs: 1 }, /withJobs must be true or false/],
    ['/queues/{queue}/delete', { force: true }, /unknown option `force`/],
  ])('%s with %j is 400, and nothing is done', async (route, body, reason) => {
    await queue.push({ id: 'a', performIn: 0 })
    await die('b')
    const { status, code, detail } = await refused(route, body)
    expect([status, code, detail]).toEqual([400, 'LOCKSTEP_BAD_OPTION', expect.stringMatching(reason)])
    expect([await queue.countJobs(), (await queue.dead('b')).length]).toEqual([1, 1])
  })

  it('an unknown queue is 404 everywhere, with the nearest name', async () => {
    for (const { method, path } of ROUTES.filter((route) => route.path.includes('{queue}'))) {
      const url = `${API}${path.replace('{queue}', 'quue')}`
      const bodies: Record<string, unknown> = { reshard: { shards: 1 }, pause: {}, resume: {}, quue: {} }
      const body = path === '/queues/{queue}/delete' ? {} : (bodies[path.split('/').at(-1)!] ?? { all: true })
      const answer =
        method === 'get'
          ? await site.ask(path.endsWith('/job') ? `${url}?id=a` : url)
          : await site.act(url, body)
      expect([url, answer.status, answer.json.code]).toEqual([url, 404, 'LOCKSTEP_UNKNOWN_QUEUE'])
    }
  })

  it('a body that is too large is 413', async () => {
    expect(await refused(JOBS, { ids: ['x'.repeat(4 * 1024 * 1024)] })).toMatchObject({ status: 413 })
  })

  it('an unknown route is 404', async () => {
    const { status, json } = await site.ask(`${API}/queue`)
    expect([status, json.code]).toEqual([404, 'LOCKSTEP_NOT_FOUND'])
    expect((await site.ask('/api/v2/queues')).status).toBe(404)
  })
})

describe('the description', () => {
  it('has every route, and no other', () => {
    const described = Object.entries(API_DOC.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method} ${path}`),
    )
    expect(described.sort()).toEqual(ROUTES.map(({ method, path }) => `${method} ${path}`).sort())
  })

  it('was compared with an answer of every route', () => {
    expect([...checked].sort()).toEqual(ROUTES.map(({ method, path }) => `${method} ${path}`).sort())
  })

  it('has no parameter that the API does not know, and its filters are those of the API', async () => {
    for (const [path, { get }] of Object.entries(API_DOC.paths)) {
      const names = (get?.parameters ?? []).filter((one) => one.in === 'query').map(({ name }) => name)
      for (const name of names) {
        const answer = await look(path, `?${name}=%00`)
        expect([path, name, answer.text]).toEqual([path, name, expect.not.stringContaining('unknown option')])
      }
    }
  })

  it('refuses answers that have more or less than it says', () => {
    const validate = schemaOf('Count')
    expect([
      validate({ count: 1, more: false }),
      validate({ count: 1 }),
      validate({ count: 1, more: false, x: 1 }),
    ]).toEqual([true, false, false])
  })
})
