import http from 'node:http'
import { expect, test } from 'vitest'
import { eventually } from '../../support/worker-environment.ts'
import { send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const LONG = 'n'.repeat(256)

test.each([
  ['GET', '/'],
  ['GET', '/api'],
  ['GET', '/api/ns'],
  ['GET', '/api/ns/'],
  ['GET', '/api/ns/q/'],
  ['GET', '/api//q'],
  ['GET', '/api/ns/q/other'],
  ['GET', '/api/ns/q/job'],
  ['GET', '/api/ns/q/job/'],
  ['GET', '/api/ns/q/peek/more'],
  ['POST', '/api/ns/q'],
  ['PATCH', '/api/ns/q'],
  ['GET', '/api/ns/a%2Fb'],
  ['GET', '/api/ns/%zz'],
  ['GET', '/api/ns/../ns/q/other'],
])('W4: %s %s is no route', async (method, path) => {
  const { port, token } = await gateway()
  const { status, json, headers } = await send(port, method, path, { headers: { 'x-token': token } })
  expect([status, json]).toEqual([404, { error: 'api not found' }])
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(headers['x-request-id']).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/)
})

test('W4: HEAD is no route, either', async () => {
  const { api } = await gateway()
  const { status, text } = await api('HEAD', 'q/size')
  expect([status, text]).toEqual([404, ''])
})

test.each([
  ['PUT', `/api/${LONG}/q`, 'namespace or queue name too long'],
  ['PUT', `/api/ns/${LONG}`, 'namespace or queue name too long'],
  ['PUT', '/api/n.s/q', 'namespace name contains forbidden characters'],
  ['PUT', '/api/ns/_q', 'queue name contains forbidden characters'],
  ['PUT', '/api/ns/q%00', 'queue name contains forbidden characters'],
  ['PUT', '/api/ns/a,b', 'queue name contains forbidden characters'],
  ['PUT', '/api/ns/%3Cb%3E', 'queue name contains forbidden characters'],
  ['PUT', "/api/ns/q';--", 'queue name contains forbidden characters'],
  ['GET', '/api/n.s/q', 'namespace name contains forbidden characters'],
  ['GET', '/api/ns/q..', 'queue name contains forbidden characters'],
  ['GET', '/api/ns/q/size?x', undefined],
])('W1: names come before everything: %s %.30s', async (method, path, error) => {
  const { port } = await gateway()
  const { status, json } = await send(port, method, `${path}${path.includes('?') ? '&' : '?'}token=nowhere:x`)
  expect([status, json]).toEqual(error ? [400, { error }] : [404, { error: 'pool not found' }])
})

test('names of 255 bytes each are fine', async () => {
  const { adminPort, port } = await gateway()
  const [namespace, queue] = ['s'.repeat(255), 'q'.repeat(255)]
  const { json } = await send(adminPort, 'POST', `/token/${namespace}?description=x`)
  const headers = { 'x-token': json.token }
  expect((await send(port, 'PUT', `/api/${namespace}/${queue}`, { headers, body: 'x' })).status).toBe(201)
  expect((await send(port, 'GET', `/api/${namespace}/${queue}`, { headers })).json).toMatchObject({
    namespace,
    queue,
  })
})

test('W1: the pool comes before the token', async () => {
  const { port } = await gateway()
  const { status, json } = await send(port, 'PUT', '/api/ns/q', { headers: { 'x-token': 'nowhere:x' } })
  expect([status, json]).toEqual([404, { error: 'pool not found' }])
})

test('W2: a token is needed, in the header or the query, and is that of the namespace', async () => {
  const { port, token, adminPort } = await gateway()
  const put = (path: string, headers = {}) => send(port, 'PUT', path, { headers, body: 'x' })
  expect((await put('/api/ns/q')).json).toEqual({ error: 'token not found' })
  for (const wrong of ['wrong', `${token}x`, token.slice(1), `default:${token}x`])
    expect((await put('/api/ns/q', { 'x-token': wrong })).json).toEqual({ error: 'invalid token' })
  expect((await put(`/api/ns/q?token=${token}`)).status).toBe(201)
  expect((await put(`/api/ns/q?token=default:${token}`)).status).toBe(201)
  expect((await put(`/api/ns/q?token=wrong`, { 'x-token': token })).status).toBe(201)
  expect((await put(`/api/other/q?token=${token}`)).status).toBe(401)
  const { json } = await send(adminPort, 'POST', '/token/other?description=x')
  expect((await put(`/api/ns/q?token=${json.token}`)).status).toBe(401)
  expect((await put(`/api/other/q?token=${json.token}`)).status).toBe(201)
})

test('i: a deleted token is refused by every gateway within a second', async () => {
  const one = await gateway()
  const other = await gateway()
  const use = () => send(other.port, 'GET', '/api/ns/unused', { headers: { 'x-token': one.token } })
  expect((await use()).status).toBe(404)
  expect((await one.admin('DELETE', `/token/ns/${one.token}`)).status).toBe(204)
  const deadline = performance.now() + 1_000
  expect((await one.api('GET', 'unused')).status).toBe(401)
  while ((await use()).status !== 401 && performance.now() < deadline);
  expect((await use()).status).toBe(401)
})

test('i: a consume whose token is deleted while it waits gets no job, and uses nothing up', async () => {
  const [one, other] = [await gateway(), await gateway()]
  const ask = (query: string) =>
    send(other.port, 'GET', `/api/ns/revoked${query}`, { headers: { 'x-token': one.token } })
  const waiting = ask('?timeout=30')
  await env.idle({ name: 'ns/revoked' } as never)
  await one.admin('DELETE', `/token/ns/${one.token}`)
  await eventually(async () => expect((await ask('')).status).toBe(401))
  const id = await other.publish('revoked', 'secret')
  const { status, json } = await waiting
  expect([status, json]).toEqual([401, { error: 'invalid token' }])
  expect(await other.consume('revoked', '?timeout=5')).toMatchObject({ job_id: id, remain_tries: 0 })
})

test('no body is read before the token was checked', async () => {
  const { port } = await gateway()
  const request = http.request({ port, method: 'PUT', path: '/api/ns/q', headers: { 'x-token': 'wrong' } })
  request.write('the beginning of a body that never ends')
  env.later(() => request.destroy())
  const status = await new Promise((resolve) =>
    request.once('response', (response) => resolve(response.statusCode)),
  )
  expect(status).toBe(401)
})

test('c, B6: each token has its own limit, over all gateways; what brought nothing is given back', async () => {
  const one = await gateway()
  const other = await gateway()
  const limit = (token: string, limiter: object) =>
    one.admin('POST', `/token/ns/${token}/limit`, { body: JSON.stringify(limiter) })
  expect((await limit(one.token, { read: 2, write: 3, interval: 60 })).status).toBe(201)
  expect((await limit(other.token, { read: 0, write: 1, interval: 60 })).status).toBe(201)
  const publish = ({ port }: { port: number }, token: string, path = 'limited') =>
    send(port, 'PUT', `/api/ns/${path}`, { body: '[1,2]', headers: { 'x-token': token } })
  const consume = ({ port }: { port: number }, token: string) =>
    send(port, 'GET', '/api/ns/limited', { headers: { 'x-token': token } })
  for (let n = 0; n < 5; n += 1) expect((await consume(one, one.token)).status).toBe(404)
  for (let n = 0; n < 5; n += 1) expect((await publish(one, one.token, 'limited?tries=0')).status).toBe(400)
  const statuses = [
    await publish(one, one.token, 'limited/bulk'),
    await publish(other, one.token),
    await publish(one, one.token),
    await publish(other, one.token),
  ].map(({ status }) => status)
  expect(statuses).toEqual([201, 201, 201, 429])
  expect((await publish(one, other.token)).status).toBe(201)
  const refused = await publish(one, `default:${other.token}`)
  expect(refused.json).toEqual({
    msg: `token(${other.token}) produce reach the limit rate, please retry later`,
  })
  expect((await consume(one, one.token)).status).toBe(200)
  expect((await consume(other, one.token)).status).toBe(200)
  expect((await consume(one, one.token)).json).toEqual({
    msg: `token(${one.token}) consume reach the limit rate, please retry later`,
  })
  expect((await consume(other, other.token)).status).toBe(200)
})

test('B6: the next window begins with the first request after the last one', async () => {
  const { api, admin, token } = await gateway()
  const limiter = { read: 0, write: 1, interval: 1 }
  await admin('PUT', `/token/ns/${token}/limit`, { body: JSON.stringify(limiter) })
  const publish = async () => (await api('PUT', 'windows', { body: 'x' })).status
  expect([await publish(), await publish()]).toEqual([201, 429])
  let status = 429
  const begun = performance.now()
  while (status === 429 && performance.now() - begun < 5_000) status = await publish()
  expect(status).toBe(201)
  expect(performance.now() - begun).toBeGreaterThan(500)
  expect(await publish()).toBe(429)
})
