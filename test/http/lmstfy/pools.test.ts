import { expect, test } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { createMigrated } from '../../support/database.ts'
import { Network } from '../../support/network.ts'
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
