import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { chunk, raw, sentFirst } from '../raw.ts'
import { decoded, type Gateway, send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const MIB = 1024 * 1024

const head = ({ token }: Gateway, path: string, ...lines: readonly string[]) =>
  [`PUT /api/ns/${path} HTTP/1.1`, 'Host: here', `X-Token: ${token}`, ...lines, '', ''].join('\r\n')

const stored = async (queue: string) =>
  (await env.lockstep.find(`ns/${queue}`, {}).catch(() => ({ items: [] }))).items

describe('bodies', () => {
  test('of exactly the limit are taken, in one piece or in chunks, alone or in bulk', async () => {
    const opened = await gateway()
    const { api, port } = opened
    expect((await api('PUT', 'exact', { body: Buffer.alloc(MIB, 1) })).status).toBe(201)
    const parts = Array.from({ length: 16 }, () => chunk('x'.repeat(MIB / 16)))
    const chunked = head(opened, 'exact', 'Transfer-Encoding: chunked', 'Connection: close')
    expect(await raw(port, chunked, ...parts, chunk(''))).toMatch(/^HTTP\/1.1 201/)
    const element = `"${'x'.repeat(MIB - 2)}"`
    expect((await api('PUT', 'exact/bulk', { body: `[${element},1]` })).json.job_ids).toHaveLength(2)
    const longer = `"${'x'.repeat(MIB - 1)}"`
    const refused = await api('PUT', 'exact/bulk', { body: `[1,${longer}]` })
    expect([refused.status, refused.json]).toEqual([413, { error: 'job too large' }])
    expect(await stored('exact')).toHaveLength(4)
  })

  test('of one byte more in chunks, or without end, are cut off with 413', async () => {
    const opened = await gateway()
    const pieces = Array.from({ length: 17 }, () => chunk('x'.repeat(MIB / 16)))
    for (const path of ['endless', 'endless/job/a']) {
      // It has no end, so only the server can close the connection.
      const answer = await raw(opened.port, head(opened, path, 'Transfer-Encoding: chunked'), ...pieces)
      expect(answer).toMatch(/^HTTP\/1.1 413 .*connection: close.*\{"error":"body too large"\}/is)
    }
    expect(await stored('endless')).toEqual([])
  })

  test('that are refused early are awaited, so that the answer is not lost', async () => {
    const opened = await gateway()
    const body = Buffer.alloc(16 * MIB, 'x')
    const length = `Content-Length: ${body.length}\r\nConnection: close`
    for (const [request, answer] of [
      [head(opened, 'early?tries=0', length), /^HTTP\/1.1 400 .*"tries shouldn't be zero"/s],
      [head({ ...opened, token: 'wrong' }, 'early', length), /^HTTP\/1.1 401 .*"invalid token"/s],
      [head(opened, '_early', length), /^HTTP\/1.1 400 .*forbidden characters/s],
      [head(opened, 'early/other', length), /^HTTP\/1.1 404 .*"api not found"/s],
    ] as const)
      expect(await sentFirst(opened.port, request, body)).toMatch(answer)
  })

  test('with a length that is wrong store nothing that was not sent, and do no harm to others', async () => {
    const opened = await gateway({
      server: { headersTimeout: 300, requestTimeout: 300, connectionsCheckingInterval: 50 },
    })
    const { port, api } = opened
    expect(await raw(port, head(opened, 'short', 'Content-Length: 5'), 'four')).toMatch(/^HTTP\/1.1 408/)
    expect(await stored('short')).toEqual([])
    const long = await raw(port, head(opened, 'long', 'Content-Length: 3'), 'four')
    expect(long).toMatch(/HTTP\/1.1 400/)
    const bodies = (await stored('long')).map(({ payloads }) => decoded(payloads[0]!.payload as string))
    expect(bodies.filter((body) => body !== 'fou')).toEqual([])
    for (const length of ['99999999999', '1048577'])
      expect(await raw(port, head(opened, 'huge', `Content-Length: ${length}`), 'x')).toMatch(
        /^HTTP\/1.1 413/,
      )
    for (const length of ['-1', '0x10', 'many'])
      expect(await raw(port, head(opened, 'huge', `Content-Length: ${length}`), 'x')).toMatch(
        /^HTTP\/1.1 400/,
      )
    expect(await stored('huge')).toEqual([])
    expect((await api('PUT', 'huge', { body: 'x' })).status).toBe(201)
  })

  test('that are compressed come back as they were sent, and never unfold', async () => {
    const { api, consume } = await gateway()
    const bomb = gzipSync(Buffer.alloc(100 * MIB))
    const headers = { 'content-encoding': 'gzip' }
    expect((await api('PUT', 'bomb', { body: bomb, headers })).status).toBe(201)
    expect((await consume('bomb')).data).toBe(bomb.toString('base64'))
    const { status, json } = await api('PUT', 'bomb/bulk', { body: gzipSync('[1]'), headers })
    expect([status, json]).toEqual([400, { error: 'request body should be an array of objects' }])
  })

  test('of HTTP/1.0 are taken, and the connection ends with the answer', async () => {
    const opened = await gateway()
    const request = head(opened, 'old', 'Content-Length: 1').replace('HTTP/1.1', 'HTTP/1.0')
    expect(await raw(opened.port, request, 'x')).toMatch(/ 201 Created\r\n.*"msg":"published"/s)
    const get = `GET /api/ns/old HTTP/1.0\r\nX-Token: ${opened.token}\r\n\r\n`
    expect(await raw(opened.port, get)).toMatch(/ 200 OK\r\n.*"data":"eA=="/s)
  })

  test('a connection is used again after a refusal', async () => {
    const opened = await gateway()
    const put = (path: string, ...lines: string[]) => `${head(opened, path, 'Content-Length: 1', ...lines)}1`
    const answers = await raw(
      opened.port,
      put('again?tries=0'),
      put('again/bulk'),
      put('_again'),
      put('again', 'Connection: close'),
    )
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(
      [400, 400, 400, 201].map((status) => `HTTP/1.1 ${status}`),
    )
  })

  test('JSON of ten thousand levels is a job like others, as it was written', async () => {
    const { api, consume, admin, token } = await gateway()
    const levels = 10_000
    for (const [opens, closes] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const deep = `${opens.repeat(levels)}1${closes.repeat(levels)}`
      expect((await api('PUT', 'deep/bulk', { body: `[${deep}]` })).status).toBe(201)
      expect(decoded((await consume('deep')).data)).toBe(deep)
      const open = await api('PUT', 'deep/bulk', { body: opens.repeat(levels) })
      expect([open.status, open.json.error]).toEqual([400, 'request body should be an array of objects'])
      expect((await admin('POST', `/token/ns/${token}/limit`, { body: deep })).status).toBe(400)
    }
    const most = '['.repeat(MIB)
    expect((await api('PUT', 'deep/bulk', { body: most })).status).toBe(400)
  })
})

describe('queries', () => {
  test.each([
    ['tries=2&tries=x', 201],
    ['tries=x&tries=2', 400],
    ['TRIES=0', 201],
    ['other=%00&tries=2', 201],
    ['tries=%32', 201],
    ['tries=+2', 400],
    ['tries=2%20', 400],
    ['tries', 400],
    ['tries=２', 400],
    ['tries=0x2', 400],
    ['tries=1e9', 400],
    ['ttl=1e9', 400],
    ['ttl=99999999999999999999999999', 400],
    ['%zz&tries=2', 201],
  ])('a publish with ?%s is %i: the first of a name counts, and only digits', async (query, status) => {
    const { api } = await gateway()
    expect(
      (await api('PUT', `queried?${encodeURI(query).replaceAll('%25', '%')}`, { body: 'x' })).status,
    ).toBe(status)
  })

  test.each(['ttr', 'timeout', 'count'])('a consume refuses the same of %s', async (name) => {
    const { api } = await gateway()
    for (const value of ['-1', '', '4294967296', '1e9', '1.5', '%00', `x&${name}=1`]) {
      const { status, json } = await api('GET', `queried?${name}=${value}`)
      expect([status, json]).toEqual([400, { error: `invalid ${name}` }])
    }
  })
})

describe('ids', () => {
  test.each([
    "'; DROP TABLE lockstep.jobs; --",
    '<img src=x onerror=alert(1)>',
    '\u001b[2J\u001b]0;title\u0007',
    '..%2F..%2Fetc',
    'x'.repeat(5_000),
    'ä😀',
    '{}',
    ',',
  ])('%j is one that no job has', async (id) => {
    const { api, publish, consume } = await gateway()
    const queue = `kept-${Math.random()}`.replace('.', '')
    const kept = await publish(queue, 'x')
    const place = `${queue}/job/${encodeURIComponent(id)}`
    const shown = await api('GET', place)
    expect([shown.status, shown.json]).toEqual([404, { error: 'job not found' }])
    expect(shown.text).not.toContain(id)
    const ended = await api('DELETE', place)
    expect([ended.status, ended.text]).toEqual([204, ''])
    expect((await api('PUT', place, { body: 'new' })).status).toBe(201)
    expect(await consume(queue, '?count=3')).toMatchObject([{ job_id: kept }, { data: 'bmV3' }])
  })
})

describe('names', () => {
  test.each([
    ['..', 400],
    ['%2e%2e', 400],
    ['.', 400],
    ['a%2fb', 404],
    ['a%252Fb', 400],
    ['a%5Cb', 400],
    ['%1b%5B31m', 400],
    ['%ff', 404],
    ['q%0d%0aX-Injected:%20yes', 400],
  ])('a queue %s is %i', async (queue, status) => {
    const { port, token } = await gateway()
    for (const method of ['PUT', 'GET', 'DELETE']) {
      const answer = await send(port, method, `/api/ns/${queue}`, { headers: { 'x-token': token } })
      expect(answer.status).toBe(status)
      expect(answer.headers).not.toHaveProperty('x-injected')
    }
    expect(await env.sql('SELECT FROM lockstep.queues WHERE name ~ $1', ['[^-_/A-Za-z0-9]'])).toEqual([])
  })
})
