import { expect, test } from 'vitest'
import { segmentOf } from '../../src/serving/names.ts'
import { useGateways } from '../http/api/gateway.ts'
import { decoded, openGateway } from '../http/lmstfy/wire.ts'
import { HOSTILE } from './hostile.ts'

const { env, open } = useGateways()
const IDS = [...HOSTILE, '..', '.', '~.', '%2F', 'a/b', '<img src=x onerror=alert(1)>']
const sorted = (texts: readonly string[]) => [...texts].sort()

test('hostile text in ids, payloads and errors goes through /v1 as it is', async () => {
  const { get, post } = await open()
  const queue = '/queues/hostile'
  const jobs = IDS.map((id) => ({ id, payload: { [id]: [id] }, headers: { [`key ${id}`]: id } }))
  expect((await post(`${queue}/jobs`, { jobs })).json).toEqual({ stored: IDS.length })
  const claim = async () => {
    const { json } = await post('/claim', { queues: 'hostile', count: 100 })
    return json.jobs as { id: string; fence: string; payloads: unknown[] }[]
  }
  const claimed = await claim()
  expect(sorted(claimed.map(({ id }) => id))).toEqual(sorted(IDS))
  const look = async ({ id, fence, payloads }: (typeof claimed)[number]) => {
    expect(payloads).toMatchObject([{ payload: { [id]: [id] }, headers: { [`key ${id}`]: id } }])
    const shown = await get(`${queue}/jobs/${segmentOf(id)}`)
    expect(shown.json.jobs).toMatchObject([{ id, state: 'working', fence }])
    const failed = await post('/fail', { queue: 'hostile', id, fence, error: id, retry_in: 0 })
    expect(failed.json).toEqual({ held: true })
    const query = new URLSearchParams({ ids: id })
    expect((await get(`${queue}/jobs?${query}`)).json.jobs).toMatchObject([{ id, state: 'waiting' }])
  }
  await Promise.all(claimed.map(look))
  const again = await claim()
  const list = again.map(({ id, fence }) => ({ queue: 'hostile', id, fence }))
  expect((await post('/complete', { claims: list })).json.results).toEqual(IDS.map(() => ({ held: true })))
  expect((await get(`${queue}/jobs`)).json.jobs).toEqual([])
})

test('hostile text in bodies, attributes and descriptions goes through lmstfy’s API as it is, and in ids it names nothing', async () => {
  const gateway = await openGateway(env)
  env.later(() => gateway.stop())
  const { admin, api, publish, consume } = gateway
  const kept = await publish('kept', 'kept')
  for (const text of IDS) {
    const attribute = Buffer.from(text).toString('latin1')
    const isSendable = !/[^\t\x20-\x7e\x80-\xff]/.test(attribute)
    const headers = {
      'Enable-Job-Version': 'YES',
      ...(isSendable && { 'Job-Attr-Text': attribute }),
    }
    // Before a body of bytes, Node sends each character of a header as a byte.
    expect((await api('PUT', 'hostile', { body: Buffer.from(text), headers })).status).toBe(201)
    const answer = await api('GET', 'hostile')
    expect(decoded(answer.json.data)).toBe(text)
    if (isSendable) expect(answer.json.attributes).toEqual({ text: text.replace(/^[ \t]+|[ \t]+$/g, '') })
    const place = `kept/job/${encodeURIComponent(text)}`
    const isPath = text.includes('/')
    expect((await api('GET', place)).json.error).toBe(isPath ? 'api not found' : 'job not found')
    expect((await api('DELETE', place)).status).toBe(isPath ? 404 : 204)
    const query = new URLSearchParams({ description: text })
    const { token } = (await admin('POST', `/token/hostile?${query}`)).json
    const { tokens } = (await admin('GET', '/token/hostile')).json
    expect(tokens[token]).toBe(text)
  }
  expect((await consume('kept')).job_id).toBe(kept)
})
