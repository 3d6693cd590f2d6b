import { expect, onTestFinished, test } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { createMigrated } from '../../support/database.ts'
import { Network } from '../../support/network.ts'
import { eventually } from '../../support/worker-environment.ts'
import { decoded, type Gateway, send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()

/** Of the namespace `ns`, in a pool. */
async function client({ port, admin }: Gateway, pool: string) {
  const { json } = await admin('POST', `/token/ns?description=x&pool=${pool}`)
  const headers = { 'x-token': json.token }
  return {
    token: json.token as string,
    call: (method: string, path: string, body?: string) =>
      send(port, method, `/api/ns/${path}`, { headers, body }),
  }
}

async function other(): Promise<Lockstep> {
  return (await reached()).lockstep
}

/** Another database, and the network that leads there. */
async function reached(): Promise<{ lockstep: Lockstep; network: Network }> {
  const database = await createMigrated()
  const network = await Network.to(database.connectionString)
  const lockstep = new Lockstep({ connectionString: network.connectionString, logger: env.logger })
  env.later(async () => {
    await lockstep.close()
    await network.close()
    await database.drop()
  })
  return { lockstep, network }
}

/** The pool `old` moves to one that can be cut off; `default` is the same database as `old`. */
async function moving() {
  const { lockstep: eu, network } = await reached()
  const old = { lockstep: env.lockstep, migrateTo: 'eu' }
  const opened = await gateway({ pools: { default: env.lockstep, old, eu } })
  const { call } = await client(opened, 'old')
  // Both pools know the queue, and are heard of.
  const warm = async (queue: string) => expect((await call('GET', queue)).status).toBe(404)
  return { opened, network, call, warm }
}

test('the prefix of a token leads to its pool', async () => {
  const eu = await other()
  const opened = await gateway({ pools: { default: env.lockstep, eu } })
  const there = await client(opened, 'eu')
  expect(there.token).toMatch(/^eu:/)
  await there.call('PUT', 'placed', 'there')
  await opened.publish('placed', 'here')
  expect((await eu.find('ns/placed', {})).items).toHaveLength(1)
  expect(decoded((await there.call('GET', 'placed')).json.data)).toBe('there')
  expect(decoded((await opened.consume('placed')).data)).toBe('here')
  const stripped = await send(opened.port, 'GET', '/api/ns/placed', {
    headers: { 'x-token': there.token.slice(3) },
  })
  expect(stripped.status).toBe(401)
})

test('B8: a pool that moves hands over what it has first, and writes to the new one', async () => {
  const eu = await other()
  const before = await gateway()
  const old = await before.publish('moved', 'old')
  const later = await before.publish('moved', 'later', '?delay=60')
  const opened = await gateway({ pools: { default: { lockstep: env.lockstep, migrateTo: 'eu' }, eu } })
  await opened.publish('moved', 'new 1')
  await opened.publish('moved', 'new 2')
  expect((await eu.find('ns/moved', {})).items).toHaveLength(2)
  expect((await opened.api('GET', 'moved/size')).json.size).toBe(3)
  expect((await opened.api('GET', 'moved/peek')).json.job_id).toBe(old)
  const jobs = await opened.consume('moved', '?count=2')
  expect(jobs.map(({ data }: { data: string }) => decoded(data))).toEqual(['old', 'new 1'])
  for (const { job_id } of jobs) await opened.api('DELETE', `moved/job/${job_id}`)
  expect(decoded((await opened.consume('moved')).data)).toBe('new 2')
  // What becomes due in the old pool comes to who waits in the meantime.
  const waiting = opened.consume('moved', '?timeout=30')
  await env.lockstep.performNow('ns/moved', {})
  expect((await waiting).job_id).toBe(later)
  expect((await env.lockstep.find('ns/moved', { state: 'waiting' })).items).toEqual([])
})

test('a, B8: a wait that fails in one pool takes nothing of the other any more', async () => {
  const { opened, network, call, warm } = await moving()
  await warm('ghosts')
  network.cut()
  expect((await call('GET', 'ghosts?timeout=60')).status).toBe(503)
  for (let n = 0; n < 20; n += 1) await opened.publish('ghosts', 'x')
  expect(await opened.consume('ghosts', '?count=20')).toHaveLength(20)
})

test.each(['cut', 'silence'] as const)(
  'B8: %s: a batch of the old pool is handed over without the new one',
  async (fault) => {
    const { opened, network, call, warm } = await moving()
    const queue = `batch-${fault}`
    await warm(queue)
    for (let n = 0; n < 3; n += 1) await opened.publish(queue, 'x')
    network[fault]()
    const { status, json } = await call('GET', `${queue}?count=10&ttr=5`)
    expect([status, json?.length]).toEqual([200, 3])
    // The ttr of none was over by then.
    expect((await env.lockstep.find(`ns/${queue}`, { state: 'working' })).items).toHaveLength(3)
    network.restore()
  },
)

/** The jobs of a queue in a database, by their bodies. */
const bodiesIn = async (lockstep: Lockstep, queue: string) =>
  (await lockstep.find<string>(`ns/${queue}`, { by: 'performIn' })).items.map(({ payloads }) =>
    decoded(payloads[0]!.payload as string),
  )

/** A gateway from before, and one whose pool moves to `eu`. */
async function beforeAndMoving() {
  const eu = await other()
  const before = await gateway()
  const opened = await gateway({ pools: { default: { lockstep: env.lockstep, migrateTo: 'eu' }, eu } })
  return { eu, before, opened }
}

test('B8: many clients over two gateways get each job once, those of the old pool first', async () => {
  const { eu, before, opened } = await beforeAndMoving()
  const second = await gateway({ pools: { default: { lockstep: env.lockstep, migrateTo: 'eu' }, eu } })
  const expected: string[] = []
  for (let n = 0; n < 30; n += 1) {
    expected.push(await before.publish('drained', 'old'))
    await opened.publish('drained', 'new')
  }
  const newOnes = (await eu.find('ns/drained', { limit: 100 })).items.map(({ id }) => id)
  expect(newOnes).toHaveLength(30)
  const got: { id: string; data: string; askedAt: number; cameAt: number }[] = []
  const client = async ({ api }: Gateway, count: number) => {
    for (;;) {
      const askedAt = performance.now()
      const { status, json } = await api('GET', `drained?count=${count}&ttr=600`)
      if (status === 404) return
      for (const { job_id: id, data } of [json].flat()) {
        got.push({ id, data: decoded(data), askedAt, cameAt: performance.now() })
        expect((await api('DELETE', `drained/job/${id}`)).status).toBe(204)
      }
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, n) => client(n % 2 ? opened : second, (n % 3) + 1)))
  expect(got.map(({ id }) => id).sort()).toEqual([...expected, ...newOnes].sort())
  const firstNew = Math.min(...got.filter(({ data }) => data === 'new').map(({ cameAt }) => cameAt))
  expect(got.filter(({ data, askedAt }) => data === 'old' && askedAt > firstNew)).toEqual([])
  expect([await bodiesIn(env.lockstep, 'drained'), await bodiesIn(eu, 'drained')]).toEqual([[], []])
})

test('B8: a job of the old pool keeps its tries, its delay and its end there', async () => {
  const { eu, before, opened } = await beforeAndMoving()
  const { api, publish, consume } = opened
  const tried = await before.publish('kept', 'tried', '?tries=2')
  const delayed = await before.publish('kept', 'delayed', '?tries=1&delay=1')
  await publish('kept', 'new')
  expect(await consume('kept', '?ttr=1')).toMatchObject({ job_id: tried, remain_tries: 1 })
  const seen = new Map<string, number>()
  await eventually(async () => {
    const { status, json } = await api('GET', 'kept?ttr=1')
    if (status === 200) seen.set(json.job_id, (seen.get(json.job_id) ?? 0) + 1)
    expect((await api('GET', 'kept/deadletter')).json.deadletter_size).toBe(3)
  })
  expect([seen.size, seen.get(tried), seen.get(delayed)]).toEqual([3, 1, 1])
  expect((await env.lockstep.findDead('ns/kept', {})).items.map(({ id }) => id).sort()).toEqual(
    [tried, delayed].sort(),
  )
  expect((await eu.findDead('ns/kept', {})).items).toHaveLength(1)
})

test('B8: dead jobs of both pools are one list, the old pool’s in front', { tags: 'slow' }, async () => {
  const { eu, before, opened } = await beforeAndMoving()
  const { api, publish, consume } = opened
  const die = async ({ publish: put }: Gateway, bodies: string[]) => {
    const ids: string[] = []
    for (const body of bodies) ids.push(await put('dying', body))
    expect(await consume('dying', `?count=${bodies.length}&ttr=0`)).toHaveLength(bodies.length)
    return ids
  }
  const old = await die(before, ['old 1', 'old 2'])
  const dead = async (size: number) =>
    eventually(async () => expect((await api('GET', 'dying/deadletter/size')).json.size).toBe(size))
  await dead(2)
  await die(opened, ['new 1', 'new 2', 'new 3'])
  await dead(5)
  expect((await api('GET', 'dying/deadletter')).json).toMatchObject({
    deadletter_size: 5,
    deadletter_head: old[0],
  })
  expect((await api('PUT', 'dying/deadletter?limit=3')).json).toEqual({ msg: 'respawned', count: 3 })
  expect(await bodiesIn(env.lockstep, 'dying')).toEqual(['old 1', 'old 2'])
  expect(await bodiesIn(eu, 'dying')).toEqual(['new 1'])
  expect(await consume('dying', '?count=3&ttr=0')).toHaveLength(3)
  await dead(5)
  expect((await api('DELETE', 'dying/deadletter?limit=4')).status).toBe(204)
  await dead(1)
  expect((await env.lockstep.findDead('ns/dying', {})).items).toEqual([])
  await publish('dying', 'alive')
})

test('B8 P7: where all dead jobs of one pool are held, those of the other one are respawned, and 503 if there are none', {
  tags: 'slow',
  timeout: 40_000,
}, async () => {
  const { eu, before, opened } = await beforeAndMoving()
  const old = await before.publish('held', 'old')
  await opened.publish('held', 'new')
  for (const lockstep of [env.lockstep, eu]) await lockstep.kill('ns/held', {})
  const producer = await env.pool.connect()
  onTestFinished(() => producer.release(true))
  await producer.query('BEGIN')
  await producer.query("SELECT lockstep.enqueue('ns/held', $1, '\"more\"')", [old])

  const respawn = () => opened.api('PUT', 'held/deadletter?limit=2')
  expect((await respawn()).json).toEqual({ msg: 'respawned', count: 1 })
  expect(await bodiesIn(eu, 'held')).toEqual(['new'])
  expect((await respawn()).status).toBe(503)
  await producer.query('ROLLBACK')
  expect((await respawn()).json).toEqual({ msg: 'respawned', count: 1 })
})

test('B8: a job is found, acknowledged, published again and destroyed in whichever pool it is', async () => {
  const { eu, before, opened } = await beforeAndMoving()
  const { api, publish } = opened
  const [old, recent] = [await before.publish('either', 'old'), await publish('either', 'new')]
  for (const id of [old, recent]) expect((await api('GET', `either/job/${id}`)).json.job_id).toBe(id)
  const again = await api('PUT', `either/job/${old}`, { body: 'old again' })
  expect(again.status).toBe(201)
  expect(await bodiesIn(env.lockstep, 'either')).toEqual([])
  expect(await bodiesIn(eu, 'either')).toEqual(['new', 'old again'])
  for (const id of [old, recent]) expect((await api('DELETE', `either/job/${id}`)).status).toBe(204)
  expect(await bodiesIn(eu, 'either')).toEqual(['old again'])
  await before.publish('either', 'old 2', '?delay=60')
  expect((await api('DELETE', 'either')).status).toBe(204)
  expect([await bodiesIn(env.lockstep, 'either'), await bodiesIn(eu, 'either')]).toEqual([[], []])
})

test('B8: while one pool is down, jobs of the other are acknowledged', async () => {
  const { opened, network, call, warm } = await moving()
  await warm('halves')
  const there = await client(opened, 'eu')
  await opened.publish('halves', 'old')
  await there.call('PUT', 'halves', 'new')
  const jobs: { job_id: string }[] = (await call('GET', 'halves?count=2&ttr=600')).json
  expect(jobs).toHaveLength(2)
  network.cut()
  const [old, recent] = jobs.map(({ job_id }) => `halves/job/${job_id}`) as [string, string]
  expect((await call('DELETE', old)).status).toBe(204)
  expect((await env.lockstep.find('ns/halves', {})).items).toEqual([])
  const refused = await call('DELETE', recent)
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
  network.restore()
  await eventually(async () => expect((await call('DELETE', recent)).status).toBe(204))
  expect((await there.call('GET', recent)).status).toBe(404)
})

test('B8: while the old pool is down, a job of the new one is acknowledged or published again, in work, dead or waiting', async () => {
  const { lockstep: old, network } = await reached()
  const opened = await gateway({
    pools: { default: env.lockstep, old: { lockstep: old, migrateTo: 'default' } },
  })
  const { call } = await client(opened, 'old')
  const publish = async (body: string) => (await call('PUT', 'again', body)).json.job_id as string
  const working = [await publish('1'), await publish('2')]
  expect((await call('GET', 'again?count=2&ttr=600')).json).toHaveLength(2)
  const dead = [await publish('3'), await publish('4')]
  await env.lockstep.kill('ns/again', { ids: dead })
  const waiting = [await publish('5'), await publish('6')]
  network.cut()
  for (const [ended, again] of [working, dead, waiting]) {
    expect((await call('DELETE', `again/job/${ended}`)).status).toBe(204)
    expect((await call('PUT', `again/job/${again}`, `${again} again`)).status).toBe(201)
  }
  expect((await env.lockstep.find('ns/again', {})).items).toHaveLength(3)
})

test('options that can’t be right are refused', async () => {
  const bad = [
    [{}, /with a pool "default"/],
    [{ default: env.lockstep, 'a:b': env.lockstep }, /letters, digits/],
    [{ default: { lockstep: env.lockstep, migrateTo: 'default' } }, /another pool/],
    [{ default: { lockstep: env.lockstep, migrateTo: 'nowhere' } }, /another pool/],
    [
      {
        default: { lockstep: env.lockstep, migrateTo: 'b' },
        b: { lockstep: env.lockstep, migrateTo: 'default' },
      },
      /moves itself/,
    ],
  ] as const
  for (const [pools, message] of bad)
    await expect(gateway({ pools: pools as never })).rejects.toThrow(message)
  await expect(gateway({ defaults: { tries: 0 } })).rejects.toThrow(/tries/)
  await expect(gateway({ defaults: { ttl: 5, delay: 6 } })).rejects.toThrow(/shorter/)
})
