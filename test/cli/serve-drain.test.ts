import http from 'node:http'
import { expect, test, vi } from 'vitest'
import { send } from '../http/lmstfy/wire.ts'
import { useServed } from './served.ts'

vi.setConfig({ testTimeout: 60_000 })

const served = useServed()

/** A gateway with a consume that waits in the queue `drained`. */
async function waiting(delay: number) {
  const { command, port, adminPort } = await served.start(['--drain-delay', String(delay)])
  const { json } = await send(adminPort, 'POST', '/token/ns?description=x')
  const headers = { 'x-token': json.token as string }
  const queue = `drained-${delay}`
  const consumed = send(port, 'GET', `/api/ns/${queue}?timeout=600`, { headers })
  await vi.waitFor(async () => {
    const rows = await served.env.query('SELECT FROM lockstep.queues WHERE name = $1', [`ns/${queue}`])
    expect(rows).toHaveLength(1)
  }, 10_000)
  return { command, port, adminPort, headers, queue, consumed }
}

test('for the drain delay it is not ready, but serves on, with each answer the last of its connection', async () => {
  const { command, port, adminPort, headers, queue, consumed } = await waiting(600)
  command.child.kill('SIGTERM')
  for (const place of [port, adminPort])
    await vi.waitFor(async () =>
      expect(await send(place, 'GET', '/readyz')).toMatchObject({ status: 503, text: 'it is stopping' }),
    )
  expect((await send(port, 'GET', '/healthz')).status).toBe(200)
  const agent = new http.Agent({ keepAlive: true })
  const published = await send(port, 'PUT', `/api/ns/${queue}`, { headers, body: 'x', agent })
  expect([published.status, published.headers.connection]).toEqual([201, 'close'])
  expect((await consumed).json).toMatchObject({ job_id: published.json.job_id })
})

test('after the drain delay, consumes that wait are answered, and the process ends', async () => {
  const { command, consumed } = await waiting(1)
  command.child.kill('SIGTERM')
  expect((await consumed).json).toEqual({ msg: 'no job available' })
  expect((await command.ended).code).toBe(0)
})
