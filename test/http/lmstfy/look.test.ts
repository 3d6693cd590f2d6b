import { expect, test } from 'vitest'
import { eventually } from '../../support/worker-environment.ts'
import { decoded, type Gateway, send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()

/** Publishes jobs that die at once, in this order. */
async function dead(
  { publish, consume }: Gateway,
  queue: string,
  bodies: readonly string[],
): Promise<string[]> {
  const ids: string[] = []
  for (const [count, body] of bodies.entries()) {
    ids.push(await publish(queue, body))
    await consume(queue, '?ttr=0')
    await eventually(async () => {
      const rows = await env.sql('SELECT FROM lockstep.dead WHERE queue = $1', [`ns/${queue}`])
      expect(rows).toHaveLength(count + 1)
    })
  }
  return ids
}

test('peek shows the job that comes next, and uses nothing up', async () => {
  const { api, publish } = await gateway()
  expect((await api('GET', 'peeked/peek')).json).toEqual({ error: 'the queue is empty' })
  await publish('peeked', 'later', '?delay=60')
  expect((await api('GET', 'peeked/peek')).status).toBe(404)
  const id = await publish('peeked', 'x', '?tries=3&ttl=0')
  for (let n = 0; n < 2; n += 1) {
    const { status, json } = await api('GET', 'peeked/peek')
    expect(status).toBe(200)
    expect(json).toEqual({
      namespace: 'ns',
      queue: 'peeked',
      job_id: id,
      data: Buffer.from('x').toString('base64'),
      ttl: 0,
      elapsed_ms: expect.any(Number),
      remain_tries: 3,
      attributes: null,
    })
  }
})

test('peek shows no job that has expired', async () => {
  const { api, publish } = await gateway()
  await publish('stale', 'a')
  await publish('stale', 'b')
  await env.sql("UPDATE lockstep.jobs SET expires_in = now() - interval '1 s'")
  expect((await api('GET', 'stale/peek')).json).toEqual({ error: 'the queue is empty' })
  const id = await publish('stale', 'c')
  expect((await api('GET', 'stale/peek')).json.job_id).toBe(id)
})

test('a job is shown by its id, with no tries', async () => {
  const { api, publish } = await gateway()
  const id = await publish('shown', 'x', '?tries=3&delay=60')
  const { status, json } = await api('GET', `shown/job/${id}`)
  expect([status, json.job_id, json.remain_tries]).toEqual([200, id, 0])
  expect((await api('GET', 'shown/job/unknown')).json).toEqual({ error: 'job not found' })
})

test('sizes need no token, and count what is ready alone', async () => {
  const { port, api, publish, consume } = await gateway()
  await publish('sized', '1')
  await publish('sized', '2')
  await publish('sized', 'later', '?delay=60')
  const { status, json } = await send(port, 'GET', '/api/ns/sized/size')
  expect([status, json]).toEqual([200, { namespace: 'ns', queue: 'sized', size: 2 }])
  const { job_id } = await consume('sized')
  await api('DELETE', `sized/job/${job_id}`)
  // d: an acknowledged job isn't counted.
  await eventually(async () => expect((await api('GET', 'sized/size')).json.size).toBe(1))
  expect((await send(port, 'GET', '/api/ns/sized/deadletter/size')).json.size).toBe(0)
  expect((await send(port, 'GET', '/api/ns/nothing/size')).json.size).toBe(0)
})

test('sizes are counted for all who ask, and kept the longer the longer that takes', async () => {
  const { api, publish } = await gateway()
  await publish('counted', '1')
  const session = await env.session()
  await session.query('BEGIN; LOCK TABLE lockstep.jobs, lockstep.morgue')
  const asked = ['size', 'deadletter/size'].map((what) => api('GET', `counted/${what}`))
  await eventually(async () => {
    const waiting = await env.sql(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
       AND clock_timestamp() - query_start > interval '0.2 s'`,
    )
    expect(waiting).toHaveLength(2)
  })
  await session.query('COMMIT')
  expect((await Promise.all(asked)).map(({ json }) => json.size)).toEqual([1, 0])
  await publish('counted', '2')
  await env.lockstep.kill('ns/counted', {})
  expect((await api('GET', 'counted/size')).json.size).toBe(1)
  expect((await api('GET', 'counted/deadletter')).json).toMatchObject({
    deadletter_size: 0,
    deadletter_head: '',
  })
  // Who respawns sees the queue as it is now.
  await api('PUT', 'counted/deadletter')
  expect((await api('GET', 'counted/size')).json.size).toBe(1)
  expect((await api('GET', 'counted/deadletter/size')).json.size).toBe(1)
})

test('an empty dead letter queue says so', async () => {
  const { api } = await gateway()
  const { json } = await api('GET', 'alive/deadletter')
  expect(json).toEqual({ namespace: 'ns', queue: 'alive', deadletter_size: 0, deadletter_head: '' })
})

test('B5: respawning brings the oldest back first, with one try, and forever with a ttl of 0', async () => {
  const opened = await gateway()
  const { api, publish, consume } = opened
  const ids = await dead(opened, 'respawned', ['a', 'b', 'c'])
  const { status, json } = await api('PUT', 'respawned/deadletter?limit=2&ttl=0')
  expect([status, json]).toEqual([200, { msg: 'respawned', count: 2 }])
  expect((await api('GET', 'respawned/deadletter')).json).toMatchObject({
    deadletter_size: 1,
    deadletter_head: ids[2],
  })
  await publish('respawned', 'new')
  const jobs = await consume('respawned', '?count=9&ttr=1')
  expect(jobs.map(({ data }: { data: string }) => decoded(data))).toEqual(['a', 'b', 'new'])
  expect(jobs[0]).toMatchObject({ job_id: ids[0], ttl: 0, remain_tries: 0 })
  await eventually(async () => expect((await api('GET', 'respawned/deadletter/size')).json.size).toBe(4))
})

test('B5: without parameters, respawning takes one, and gives it the ttl of a new job', async () => {
  const opened = await gateway()
  await dead(opened, 'one', ['a', 'b'])
  expect((await opened.api('PUT', 'one/deadletter')).json).toEqual({ msg: 'respawned', count: 1 })
  const { ttl, remain_tries } = await opened.consume('one')
  expect(ttl).toBeGreaterThan(86_390)
  expect(remain_tries).toBe(0)
  expect((await opened.api('PUT', 'empty/deadletter')).json).toEqual({ msg: 'respawned', count: 0 })
})

test('deleting from the dead letter queue takes the oldest', async () => {
  const opened = await gateway()
  const ids = await dead(opened, 'deleted', ['a', 'b', 'c'])
  expect((await opened.api('DELETE', 'deleted/deadletter?limit=2')).status).toBe(204)
  expect((await opened.api('GET', 'deleted/deadletter')).json).toMatchObject({
    deadletter_size: 1,
    deadletter_head: ids[2],
  })
})

test('deleting from the dead letter queue takes as many payloads as it is told, also of one id', async () => {
  const { api } = await gateway()
  await env.sql("SELECT lockstep.create_queue('ns/several')")
  for (const [id, payload] of [
    ['a', 1],
    ['a', 2],
    ['b', 2],
    ['a', 3],
  ])
    await env.sql("SELECT lockstep.enqueue('ns/several', $1::text, $2, $3)", [id, payload, payload])
  for (const id of ['b', 'a']) await env.lockstep.kill('ns/several', { ids: [id] })
  const left = async () =>
    (await env.sql("SELECT id, payload FROM lockstep.dead WHERE queue = 'ns/several' ORDER BY died_at")).map(
      ({ id, payload }) => `${id} ${payload}`,
    )
  expect(await left()).toEqual(['b 2', 'a 1', 'a 2', 'a 3'])
  expect((await api('DELETE', 'several/deadletter?limit=2')).status).toBe(204)
  expect(await left()).toEqual(['a 2', 'a 3'])
  expect((await api('DELETE', 'several/deadletter')).status).toBe(204)
  expect(await left()).toEqual(['a 3'])
})

test.each([
  ['PUT', '?limit=0', 'invalid limit'],
  ['PUT', '?limit=-1', 'invalid limit'],
  ['PUT', '?limit=', 'invalid limit'],
  ['PUT', '?ttl=-1', 'invalid ttl'],
  ['PUT', '?ttl=x', 'invalid ttl'],
  ['DELETE', '?limit=0', 'invalid limit'],
  ['DELETE', '?limit=x', 'invalid limit'],
])('%s deadletter%s says %s', async (method, query, error) => {
  const { api } = await gateway()
  const { status, json } = await api(method, `q/deadletter${query}`)
  expect([status, json]).toEqual([400, { error }])
})

test('h: destroying a queue deletes delayed jobs, too, and leaves what is in work and dead', async () => {
  const opened = await gateway()
  const { api, publish, consume } = opened
  await dead(opened, 'destroyed', ['dead'])
  const working = await publish('destroyed', 'working')
  await consume('destroyed', '?ttr=60')
  const delayed = await publish('destroyed', 'delayed', '?delay=60')
  const ready = await publish('destroyed', 'ready')
  expect((await api('DELETE', 'destroyed')).status).toBe(204)
  const found = await Promise.all([working, delayed, ready].map((id) => api('GET', `destroyed/job/${id}`)))
  expect(found.map(({ status }) => status)).toEqual([200, 404, 404])
  expect((await api('GET', 'destroyed/deadletter/size')).json.size).toBe(1)
  expect((await api('DELETE', 'never-used')).status).toBe(204)
})

test('B5: two who delete dead jobs at once delete as many as both ask for', async () => {
  const opened = await gateway()
  const bodies = Array.from({ length: 20 }, (_, n) => `${n}`)
  for (const body of bodies) await opened.publish('both', body)
  await env.lockstep.kill('ns/both', {})
  const deletes = [6, 7].map((limit) => opened.api('DELETE', `both/deadletter?limit=${limit}`))
  expect((await Promise.all(deletes)).map(({ status }) => status)).toEqual([204, 204])
  expect(await env.sql("SELECT FROM lockstep.dead WHERE queue = 'ns/both'")).toHaveLength(7)
})
