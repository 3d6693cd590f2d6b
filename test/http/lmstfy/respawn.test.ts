import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../support/worker-environment.ts'
import { useGateway } from './wire.ts'

const { env, gateway } = useGateway()

test('P7: a respawn passes over what an open transaction holds, and 503 if that is all', {
  tags: 'slow',
  timeout: 30_000,
}, async () => {
  const { api, publish } = await gateway()
  const ids: string[] = []
  for (const body of ['1', '2', '3']) ids.push(await publish('held', body))
  await env.lockstep.kill('ns/held', {})
  const producer = await env.pool.connect()
  onTestFinished(() => producer.release(true))
  await producer.query('BEGIN')
  await producer.query("SELECT lockstep.enqueue('ns/held', $1, '\"more\"')", [ids[0]])

  const one = await api('PUT', 'held/deadletter?limit=1')
  expect([one.status, one.json.count]).toEqual([200, 1])
  const rest = await api('PUT', 'held/deadletter?limit=10')
  expect([rest.status, rest.json.count]).toEqual([200, 1])
  const none = await api('PUT', 'held/deadletter?limit=10')
  expect([none.status, none.headers['retry-after']]).toEqual([503, '1'])
  await producer.query('ROLLBACK')
  const last = await api('PUT', 'held/deadletter?limit=10')
  expect([last.status, last.json.count]).toEqual([200, 1])
})

test('P7: publishing again what an open transaction holds is refused, and stores nothing', {
  tags: 'slow',
  timeout: 30_000,
}, async () => {
  const { api, publish, consume } = await gateway()
  for (const state of ['waiting', 'working']) {
    const id = await publish(`again-${state}`, 'old')
    if (state === 'working') await consume(`again-${state}`, '?ttr=60')
    const producer = await env.pool.connect()
    onTestFinished(() => producer.release(true))
    await producer.query('BEGIN')
    await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [`ns/again-${state}`, id, '"more"'])
    const again = () => api('PUT', `again-${state}/job/${id}`, { body: 'new' })
    const jobs = async () => (await env.lockstep.find(`ns/again-${state}`, {})).items.map((job) => job.id)
    const refused = await again()
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
    expect(await jobs()).toEqual([id])
    await producer.query('ROLLBACK')
    const { status, json } = await again()
    expect(status).toBe(201)
    expect(await jobs()).toEqual([json.job_id])
  }
})

test('P7: publishing again stores nothing once its client has left', async () => {
  const { api, publish, port, token } = await gateway()
  const id = await publish('left', 'old')
  const producer = await env.pool.connect()
  onTestFinished(() => producer.release(true))
  await producer.query('BEGIN')
  await producer.query("SELECT lockstep.enqueue('ns/left', $1, '1')", [id])
  const leaving = new AbortController()
  const url = `http://127.0.0.1:${port}/api/ns/left/job/${id}`
  const headers = { 'x-token': token }
  const asked = fetch(url, { method: 'PUT', headers, body: 'new', signal: leaving.signal })
  await eventually(async () => {
    const waiting = await env.sql(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    expect(waiting).toHaveLength(1)
  })
  leaving.abort()
  await expect(asked).rejects.toThrow()
  await producer.query('ROLLBACK')
  expect((await api('GET', 'left/size')).json.size).toBe(1)
  expect((await env.lockstep.find('ns/left', {})).items.map((job) => job.id)).toEqual([id])
})
