import { expect, test, vi } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const TOKEN = 'a-token-of-twenty-characters'

interface Line {
  readonly event: string
  readonly method: string
  readonly path: string
  readonly status: number
  readonly requestId: string
  readonly error?: string
}

/** A gateway whose log is on, and what it has logged. */
async function logged() {
  const lines: Line[] = []
  const note = (fields: object) => void lines.push(fields as Line)
  const logger = { ...env.logger, info: note, error: note }
  const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
  env.later(() => lockstep.close())
  const opened = await gateway({ pools: { default: lockstep }, accessLog: true })
  lines.splice(0)
  return { lines, ...opened }
}

test('each request of the administration is logged with the id of its answer, and without a token', async () => {
  const { lines, admin } = await logged()
  const answers = [
    await admin('POST', `/token/logged?description=x&token=${TOKEN}`),
    await admin('PUT', `/token/logged/${TOKEN}/limit`, { body: '{"read":1,"interval":1}' }),
    await admin('GET', `/token/logged%2F${TOKEN}`),
    await admin('GET', `/token/logged/${TOKEN}/limits`),
    await admin('DELETE', `/token/logged/${TOKEN}/`),
    await admin('GET', '/pools'),
  ]
  expect(lines.map(({ method, path, status }) => `${method} ${path} ${status}`)).toEqual([
    'POST /token/logged 201',
    'PUT /token/logged/:token/limit 200',
    'GET /token/:namespace 200',
    'GET - 404',
    'DELETE /token/logged/:token 204',
    'GET /pools 200',
  ])
  expect(lines.map(({ requestId }) => requestId)).toEqual(
    answers.map(({ headers }) => headers['x-request-id']),
  )
  expect(JSON.stringify(lines)).not.toContain(TOKEN)
})

test('why a request of the administration failed is logged under its id', async () => {
  const { lines, admin } = await logged()
  await env.sql('ALTER TABLE lockstep.lmstfy_limits RENAME TO away')
  try {
    const { status, headers } = await admin('GET', '/limits')
    const [failure, line] = lines
    expect(failure).toMatchObject({ error: expect.stringMatching(/lmstfy_limits/) })
    expect(line).toMatchObject({ event: 'http-access', path: '/limits', status })
    expect([failure!.requestId, line!.requestId]).toEqual(Array(2).fill(headers['x-request-id']))
  } finally {
    await env.sql('ALTER TABLE lockstep.away RENAME TO lmstfy_limits')
  }
})

test('a client that goes away while it waits is logged with 499', async () => {
  const { lines, port, token } = await logged()
  const leaving = new AbortController()
  const options = { headers: { 'x-token': token }, signal: leaving.signal }
  const waiting = send(port, 'GET', '/api/ns/left?timeout=600', options).catch(() => 'left')
  await vi.waitFor(async () => {
    expect(await env.sql("SELECT FROM lockstep.queues WHERE name = 'ns/left'")).toHaveLength(1)
  })
  leaving.abort()
  expect(await waiting).toBe('left')
  await vi.waitFor(() => expect(lines).toMatchObject([{ path: '/api/ns/left', status: 499 }]))
})
