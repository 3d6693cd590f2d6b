import { gzipSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import type { Site } from '../../web/site.ts'
import { chunk, raw, sentFirst } from '../raw.ts'
import { below, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

const KIB = 1024

const portOf = (site: Site) => Number(new URL(site.origin).port)

const head = (...lines: readonly string[]) =>
  ['POST /v1/claim HTTP/1.1', 'Host: here', 'Content-Type: application/json', ...lines, '', ''].join('\r\n')

describe('bodies', () => {
  test('of the limit are taken, and of one byte more refused', async () => {
    const { post } = await open({ access: 'open', maxBody: KIB })
    const queue = name()
    const rest = JSON.stringify({ id: 'a', payload: '' }).length
    const of = (bytes: number) => ({ id: 'a', payload: 'x'.repeat(bytes - rest) })
    expect((await post(below(queue, '/jobs'), of(KIB))).json).toEqual({ stored: 1 })
    const more = await post(below(queue, '/jobs'), of(KIB + 1))
    expect([more.status, more.json.code]).toEqual([413, 'LOCKSTEP_TOO_LARGE'])
    expect(more.json.detail).toBe(
      'the body has more than 1024 bytes: send fewer jobs at once, or a reference to what is large',
    )
  })

  test('in chunks are taken up to the limit, and one without end is cut off', async () => {
    const { site } = await open({ access: 'open', maxBody: KIB })
    const body = JSON.stringify({ queues: name() })
    const chunked = head('Transfer-Encoding: chunked', 'Connection: close')
    const taken = await raw(portOf(site), chunked, chunk(body.slice(0, 5)), chunk(body.slice(5)), '0\r\n\r\n')
    expect(taken).toMatch(/^HTTP\/1.1 200/)
    // It has no end, so only the server can close the connection.
    const endless = head('Transfer-Encoding: chunked')
    const cut = await raw(portOf(site), endless, ...Array.from({ length: 5 }, () => chunk('x'.repeat(300))))
    expect(cut).toMatch(/^HTTP\/1.1 413/)
    expect(cut).toMatch(/connection: close/i)
  })

  test('for a host that is none are refused with problem details, like all others', async () => {
    const { site } = await open()
    for (const host of ['a b', '[::1', 'x:99999']) {
      const answer = await raw(
        portOf(site),
        `GET /v1/stats HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
      )
      expect(answer).toMatch(
        /^HTTP\/1.1 400.*content-type: application\/problem\+json.*"LOCKSTEP_BAD_OPTION"/is,
      )
    }
  })

  test('with a length that is wrong do no harm to others', async () => {
    const { site, get } = await open({ access: 'open', bodyTimeout: 200 })
    const body = JSON.stringify({ queues: name() })
    const short = await raw(portOf(site), head(`Content-Length: ${body.length + 1}`), body)
    expect(short).toMatch(/^HTTP\/1.1 408/)
    const long = await raw(portOf(site), head(`Content-Length: ${body.length - 1}`), body)
    expect(long).toMatch(/^HTTP\/1.1 400/)
    const huge = await raw(portOf(site), head('Content-Length: 99999999999'), 'x')
    expect(huge).toMatch(/^HTTP\/1.1 413/)
    expect((await get('/stats')).status).toBe(200)
  })

  test('that are refused early are awaited, so that the answer is not lost', async () => {
    const body = Buffer.alloc(16 * 1024 * KIB, ' ')
    const large = head(`Content-Length: ${body.length}`)
    const { site } = await open({ access: 'open' })
    expect(await sentFirst(portOf(site), large, body)).toMatch(/^HTTP\/1.1 413 .*"LOCKSTEP_TOO_LARGE"}$/s)
    const one = [`${body.length.toString(16)}\r\n`, body, '\r\n0\r\n\r\n'].map((part) => Buffer.from(part))
    const chunked = head('Transfer-Encoding: chunked')
    expect(await sentFirst(portOf(site), chunked, Buffer.concat(one))).toMatch(
      /^HTTP\/1.1 413 .*"LOCKSTEP_TOO_LARGE"}$/s,
    )
    const { site: guarded } = await open({ access: 'tokens' })
    expect(await sentFirst(portOf(guarded), large, body)).toMatch(/^HTTP\/1.1 401 .*"LOCKSTEP_LOGIN"}$/s)
  })

  test('408: one that comes too slowly', async () => {
    const { site } = await open({ access: 'open', bodyTimeout: 100 })
    const answer = await raw(portOf(site), head('Content-Length: 100'), '{')
    expect(answer).toMatch(/^HTTP\/1.1 408 /)
    expect(answer).toContain('"code":"LOCKSTEP_SLOW_BODY"')
  })

  test('a connection is used again after a refusal', async () => {
    const { site } = await open()
    const bad = '{"queues":'
    const good = JSON.stringify({ queues: name() })
    const requests = [bad, good].map((body) => `${head(`Content-Length: ${body.length}`)}${body}`)
    const closing = `${head('Content-Length: 2', 'Connection: close')}{}`
    const answers = await raw(portOf(site), ...requests, closing)
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200', 'HTTP/1.1 422'])
  })

  test('an HTTP/1.0 request is answered', async () => {
    const { site } = await open()
    const body = JSON.stringify({ queues: name() })
    const request = head(`Content-Length: ${body.length}`).replace('HTTP/1.1', 'HTTP/1.0')
    expect(await raw(portOf(site), request, body)).toMatch(/ 200 OK\r\n.*\{"jobs":\[\]\}$/s)
  })

  test.each([
    ['no type', {}, undefined],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }, undefined],
    ['text', { 'content-type': 'text/plain' }, undefined],
    ['another charset', { 'content-type': 'application/json; charset=latin1' }, undefined],
    ['gzip', { 'content-type': 'application/json', 'content-encoding': 'gzip' }, gzipSync('x'.repeat(1e7))],
  ])('415: %s', async (_, headers, body = Buffer.from('{"queues":"a"}')) => {
    const { api } = await open()
    const request = new Request('http://here/v1/claim', {
      method: 'POST',
      headers: headers as Record<string, string>,
      body,
    })
    const answer = await api.fetch(request)
    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
      415,
      'LOCKSTEP_MEDIA_TYPE',
    ])
  })

  test.each(['application/json', 'APPLICATION/JSON; charset=UTF-8', 'application/json;charset="utf-8"'])(
    'type %s is taken',
    async (type) => {
      const { post } = await open()
      expect((await post('/claim', { queues: name() }, { 'content-type': type })).status).toBe(200)
    },
  )

  test.each([
    ['nothing', ''],
    ['text', 'hello'],
    ['half of it', '{"queues":'],
    ['two values', '{} {}'],
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22])],
  ])('400: %s is no JSON', async (_, body) => {
    const { api } = await open()
    const headers = { 'content-type': 'application/json' }
    const answer = await api.fetch(new Request('http://here/v1/claim', { method: 'POST', headers, body }))
    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
      400,
      'LOCKSTEP_BAD_JSON',
    ])
  })

  test('JSON of ten thousand levels is refused, and one of 400 comes back as it was', async () => {
    const { post } = await open()
    const queue = name()
    for (const [opens, closes] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const nested = (levels: number) =>
        `{"id":"a","payload":${opens.repeat(levels)}1${closes.repeat(levels)}}`
      const deep = await post(below(queue, '/jobs'), nested(10_000))
      expect([deep.status, deep.json.detail]).toEqual([422, 'the body must not nest deeper than 500 levels'])
      expect((await post(below(queue, '/jobs'), nested(400))).status).toBe(200)
      const { text } = await post('/claim', { queues: queue })
      expect(text.split(opens === '[' ? '[' : '"a": ').length).toBeGreaterThan(400)
      const [{ id, fence }] = JSON.parse(text).jobs
      await post('/complete', { queue, id, fence })
    }
    const text = JSON.stringify({ id: 'b', payload: '[{"\\'.repeat(1_000) })
    expect((await post(below(queue, '/jobs'), text)).status).toBe(200)
  })
})

describe('queries', () => {
  test.each([
    ['limit=1&limit=2', 'the query names limit twice'],
    ['limit=', 'the query: limit must be a number, not ""'],
    ['limit=0', 'the query: limit must be at least 1, not 0'],
    ['limit=-1', 'the query: limit must be at least 1, not -1'],
    ['limit=4294967296', 'the query: limit must be at most 1000, not 4294967296'],
    ['limit=1e9', 'the query: limit must be at most 1000'],
    ['limit=1.5', 'the query: limit must be a whole number, not 1.5'],
    ['limit=0x10', 'the query: limit must be a number, not "0x10"'],
    ['limt=1', 'the query: limt is unknown, did you mean `limit`?'],
    ['__proto__=1', 'the query: __proto__ is unknown'],
    ['state=dead', 'the query: state must be "waiting" or "working", not "dead"'],
    ['perform_in.from=yesterday', 'the query: perform_in.from must be a time such as'],
    ['after=x', 'after'],
    ['by=id&after=%00', 'after'],
    ['id.from=%00', 'id'],
    ['ids=a&ids=%00', 'ids'],
  ])('400: %s', async (query, detail) => {
    const { get } = await open()
    const queue = name()
    await env.sql('SELECT lockstep.create_queue($1)', [queue])
    const answer = await get(below(queue, `/jobs?${query}`))
    expect(answer.json).toMatchObject({
      status: 400,
      code: 'LOCKSTEP_BAD_OPTION',
      detail: expect.stringContaining(detail),
    })
  })

  test('none is taken where there is nothing to ask', async () => {
    const { get, post } = await open()
    expect((await get('/stats?x=1')).json.detail).toBe('the query: x is unknown, there are none')
    expect((await get('/openapi.json?x=1')).status).toBe(400)
    expect((await post('/claim?queues=a', { queues: 'a' })).status).toBe(400)
  })
})

describe('paths', () => {
  test.each([
    'x'.repeat(255),
    'a/b',
    '..',
    '.',
    '~.',
    '%2F',
    'a?b#c',
    'ä 😀',
    "'; DROP TABLE lockstep.jobs; --",
    '<b>',
    '\u001b[31m',
  ])('queue %j may have any name', async (queue) => {
    const { post, get, site } = await open()
    const place = queue === '..' || queue === '.' || queue === '~.' ? `~${queue}` : encodeURIComponent(queue)
    expect((await site.ask(`/v1/queues/${place}/jobs`, { body: { id: 'a' } })).json).toEqual({ stored: 1 })
    expect((await post('/claim', { queues: queue })).json.jobs).toMatchObject([{ queue, id: 'a' }])
    expect((await get(`/queues/${place}/stats`)).json.stats.queue).toBe(queue)
  })

  test.each([
    ['512 bytes', 'x'.repeat(512), 'must be at most 511 bytes, not 512'],
    ['512 bytes of 256 characters', 'ä'.repeat(256), 'must be at most 511 bytes, not 512'],
    ['NUL', '\u0000', 'must be well-formed text without \\u0000'],
  ])('400: a name of %s', async (_, queue, detail) => {
    const { post } = await open()
    for (const answer of [
      await post(below(queue, '/jobs'), { id: 'a' }),
      await post('/claim', { queues: queue }),
    ])
      expect(answer.json).toMatchObject({
        status: 400,
        code: 'LOCKSTEP_BAD_QUEUE',
        detail: expect.stringContaining(detail),
      })
  })

  test('404: a queue that does not exist, where only a push or a claim creates it', async () => {
    const { get, post } = await open()
    for (const path of ['/peek', '/jobs', '/jobs/a', '/dead', '/stats'])
      expect((await get(below('gone', path))).json).toMatchObject({
        status: 404,
        code: 'LOCKSTEP_UNKNOWN_QUEUE',
      })
    for (const path of ['/pause', '/resume'])
      expect((await post(below('gone', path))).json).toMatchObject({
        status: 404,
        code: 'LOCKSTEP_UNKNOWN_QUEUE',
      })
    expect((await post(below('gone', '/reshard'), { shards: 2 })).status).toBe(404)
    expect((await post(below('gone', '/dead/delete'), { all: true })).status).toBe(404)
    const claim = { queue: 'gone', id: 'a', fence: '1' }
    expect((await post('/complete', claim)).json).toMatchObject({
      status: 404,
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
    })
    expect(await env.sql("SELECT FROM lockstep.queues WHERE name = 'gone'")).toEqual([])
  })

  test.each([
    '/',
    '/nothing',
    '/queues',
    '/queues//jobs',
    '/queues/a',
    '/queues/a/../stats',
    '/claim/',
    '/v1/claim',
  ])('404: %s', async (path) => {
    const { get } = await open()
    expect((await get(path)).json).toMatchObject({ status: 404, code: 'LOCKSTEP_NOT_FOUND' })
  })

  test.each(['%', '%zz', 'b%FCro', '%ED%A0%80'])('400: %s is no UTF-8 in an address', async (queue) => {
    const { get, post } = await open()
    for (const answer of [
      await get(`/queues/${queue}/peek`),
      await post(`/queues/${queue}/jobs`, { id: 'a' }),
    ])
      expect([answer.status, answer.json.code]).toEqual([400, 'LOCKSTEP_BAD_OPTION'])
    expect(await env.sql('SELECT FROM lockstep.queues WHERE name = $1', [queue])).toEqual([])
  })

  test('404: a job that does not exist', async () => {
    const { get, post } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), { id: 'a' })
    expect((await get(below(queue, '/jobs/b'))).json).toMatchObject({
      status: 404,
      code: 'LOCKSTEP_UNKNOWN_JOB',
    })
  })

  test('405 names the methods that are allowed', async () => {
    const { site } = await open()
    const allowed = async (method: string, path: string) => {
      const { status, headers } = await site.ask(`/v1${path}`, { method })
      expect(status).toBe(405)
      return headers.get('allow')
    }
    expect(await allowed('DELETE', '/queues/a/jobs')).toBe('GET, HEAD, POST')
    expect(await allowed('GET', '/claim')).toBe('POST')
    expect(await allowed('PUT', '/openapi.json')).toBe('GET, HEAD')
    expect(await allowed('POST', '/stats')).toBe('GET, HEAD')
  })
})

describe('without the database', () => {
  test('503, and when to come again; what the server says is in the log alone', async () => {
    const error = vi.fn()
    const logger = { debug() {}, info() {}, warn() {}, error }
    const lockstep = new Lockstep({ connectionString: 'postgres://someone:sesame@127.0.0.1:1/x', logger })
    const { get, post } = await open({ access: 'open' }, lockstep)
    const claim = { queue: 'a', id: 'b', fence: '1' }
    const answers = [
      await post('/queues/a/jobs', { id: 'a' }),
      await post('/queues/a/jobs', { id: 'a' }, { 'idempotency-key': 'k' }),
      await post('/claim', { queues: 'a' }),
      await post('/complete', claim),
      await post('/fail', { claims: [{ ...claim, error: 'x' }] }),
      await get('/queues/a/peek'),
      await get('/stats'),
      await post('/queues/a/pause'),
      await post('/queues/a/reshard', { shards: 2 }),
    ]
    for (const answer of answers) {
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5'])
      expect(answer.text).not.toMatch(/someone|sesame|127/)
    }
    expect(error).toHaveBeenCalled()
    const { get: withToken } = await open({ access: 'tokens' }, lockstep)
    const token = `lockstep_${'x'.repeat(43)}`
    expect((await withToken('/stats', { authorization: `Bearer ${token}` })).status).toBe(503)
  })

  test('that goes in the middle, everything goes on once it is back', async () => {
    const { post } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), { id: 'a' })
    const waiting = post('/claim', { queues: name(), wait: 1 })
    const [job] = (await post('/claim', { queues: queue, lease: 600 })).json.jobs
    await env.sql(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    )
    expect([200, 503]).toContain((await waiting).status)
    const { id, fence } = job
    const done = await vi.waitFor(
      async () => {
        const answer = await post('/complete', { queue, id, fence })
        expect(answer.status).toBe(200)
        return answer
      },
      { timeout: 15_000 },
    )
    expect(done.json).toEqual({ held: true })
    const pushed = await vi.waitFor(
      async () => {
        const answer = await post(below(queue, '/jobs'), { id: 'b' })
        expect(answer.status).toBe(200)
        return answer
      },
      { timeout: 15_000 },
    )
    expect(pushed.json).toEqual({ stored: 1 })
    expect((await post('/claim', { queues: queue, wait: 20 })).json.jobs).toMatchObject([{ id: 'b' }])
  })
})
