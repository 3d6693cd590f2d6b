import { readFileSync } from 'node:fs'
import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { lockstepLmstfy } from '../../../src/http/index.ts'
import { useWorkers } from '../../support/worker-environment.ts'
import { decoded } from './wire.ts'

const env = useWorkers()

/** The API as a fetch handler, with a token for the namespace `ns`. */
async function mounted() {
  const lmstfy = lockstepLmstfy({ pools: { default: env.lockstep } })
  env.later(() => lmstfy.stop())
  const administered = await lmstfy.admin.fetch(
    new Request('http://host/token/ns', {
      method: 'POST',
      body: new URLSearchParams({ description: 'tests' }),
    }),
  )
  const { token } = (await administered.json()) as { token: string }
  const ask = (method: string, path: string, more: RequestInit = {}) =>
    lmstfy.fetch(
      new Request(`http://host/api/ns/${path}`, { method, headers: { 'x-token': token }, ...more }),
    )
  return { lmstfy, token, ask }
}

test('as a fetch handler, it publishes, consumes and acknowledges any bytes', async () => {
  const { ask } = await mounted()
  const body = Buffer.from([0, 255, 10, 128])
  const published = await ask('PUT', 'fetched?tries=3', { body })
  expect([published.status, published.headers.get('x-request-id')]).toEqual([201, expect.any(String)])
  const { job_id } = (await published.json()) as { job_id: string }
  const consumed = await ask('GET', 'fetched?ttr=60')
  const job = (await consumed.json()) as { job_id: string; data: string }
  expect([consumed.status, job.job_id, Buffer.from(job.data, 'base64')]).toEqual([200, job_id, body])
  const ended = await ask('DELETE', `fetched/job/${job_id}`)
  expect([ended.status, await ended.text()]).toEqual([204, ''])
  expect((await ask('GET', `fetched/job/${job_id}`)).status).toBe(404)
})

test('as a fetch handler, it refuses what is too large, whether or not that is announced', async () => {
  const { ask } = await mounted()
  const large = 'x'.repeat(1024 * 1024 + 1)
  const announced = await ask('PUT', 'large', { body: large })
  const stream = new Blob([large]).stream()
  const chunked = await ask('PUT', 'large', { body: stream, duplex: 'half' } as RequestInit)
  for (const answer of [announced, chunked])
    expect([answer.status, await answer.json()]).toEqual([413, { error: 'body too large' }])
})

test('a: a client of a fetch handler that goes away while it waits uses nothing up', async () => {
  const { ask } = await mounted()
  const leaving = new AbortController()
  const waiting = ask('GET', 'left?timeout=60', { signal: leaving.signal })
  await env.idle({ name: 'ns/left' } as never)
  leaving.abort()
  expect((await waiting).status).toBe(404)
  await ask('PUT', 'left', { body: 'x' })
  const { data } = (await (await ask('GET', 'left')).json()) as { data: string }
  expect(decoded(data)).toBe('x')
})

test('it is mounted in Hono, and quiet() answers who waits', async () => {
  const { lmstfy, token } = await mounted()
  const app = new Hono().all('/api/*', ({ req }) => lmstfy.fetch(req.raw))
  const waiting = app.request('/api/ns/quiet?timeout=60', { headers: { 'x-token': token } })
  await env.idle({ name: 'ns/quiet' } as never)
  lmstfy.quiet()
  expect(await (await waiting).json()).toEqual({ msg: 'no job available' })
})

test('after stop(), whatever is asked is refused with 503, and nothing is stored', async () => {
  const { lmstfy, ask } = await mounted()
  await lmstfy.stop()
  const refused = [
    await ask('PUT', 'stopped', { body: 'x' }),
    await ask('GET', 'stopped'),
    await ask('GET', 'stopped/size'),
    await lmstfy.admin.fetch(new Request('http://host/token/stopped?description=x', { method: 'POST' })),
  ]
  for (const { status, headers } of refused) {
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
    expect(headers.get('x-request-id')).toMatch(/^\w{26}$/)
  }
  expect(await env.sql("SELECT FROM lockstep.queues WHERE name = 'ns/stopped'")).toEqual([])
  expect(await env.sql("SELECT FROM lockstep.lmstfy_tokens WHERE namespace = 'stopped'")).toEqual([])
})

test('the code of the docs is a part of an example that is compiled', () => {
  const [, code] = /```ts\n\/\/ lmstfy\.ts\n(.*?)```/s.exec(readFileSync('docs/lmstfy.md', 'utf8'))!
  expect(readFileSync('docs/examples/http/lmstfy.ts', 'utf8')).toContain(code!.trim())
})
