import { expect, test } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { Network } from '../../support/network.ts'
import { eventually } from '../../support/worker-environment.ts'
import { decoded, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const GATE = 4_711

/** A gateway that a network leads to the database. */
async function distant() {
  const network = await Network.to(env.connectionString)
  const lockstep = new Lockstep({ connectionString: network.connectionString, logger: env.logger })
  env.later(async () => {
    await lockstep.close()
    network.close()
  })
  return { network, opened: await gateway({ pools: { default: lockstep } }) }
}

/** A consume stops once it has taken its job, before it says until when: where lmstfy has popped it, and not set the timer. */
async function stopped(begin: () => Promise<unknown>): Promise<{ pid: number; goOn(): Promise<unknown> }> {
  await env.sql(
    `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN
       PERFORM pg_advisory_xact_lock_shared(${GATE});
       RETURN NEW;
     END $$;
     CREATE TRIGGER hold BEFORE INSERT ON lockstep.leases FOR EACH ROW EXECUTE FUNCTION hold()`,
  )
  env.later(() => env.pool.query('DROP TRIGGER hold ON lockstep.leases; DROP FUNCTION hold'))
  const keeper = await env.session()
  await keeper.query(`SELECT pg_advisory_lock(${GATE})`)
  void begin()
  const pid = await eventually(async () => {
    const rows = await env.sql<{ pid: number }>(
      `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = ${GATE} AND NOT granted`,
    )
    expect(rows).toHaveLength(1)
    return rows[0]!.pid
  })
  return { pid, goOn: () => keeper.query(`SELECT pg_advisory_unlock(${GATE})`) }
}

const working = async (queue: string) =>
  (await env.lockstep.find(`ns/${queue}`, { state: 'working' })).items.length

test('b: a consume that breaks off half way has taken nothing, and used nothing up', async () => {
  const { opened } = await distant()
  const id = await opened.publish('half', 'x', '?tries=2')
  const consumed = { status: 0 }
  const { pid, goOn } = await stopped(() =>
    opened.api('GET', 'half?ttr=600').then(({ status }) => Object.assign(consumed, { status })),
  )
  expect(await working('half')).toBe(0)
  await env.sql('SELECT pg_terminate_backend($1)', [pid])
  await eventually(() => expect(consumed.status).toBe(503))
  await goOn()
  await eventually(async () =>
    expect(await opened.consume('half', '?timeout=1')).toMatchObject({ job_id: id, remain_tries: 1 }),
  )
})

test('a job that is deleted at the moment it is claimed does not come again after its ttr', async () => {
  const { opened } = await distant()
  const id = await opened.publish('deleted', 'x', '?tries=2')
  const { goOn } = await stopped(() => opened.api('GET', 'deleted?ttr=1'))
  const deleted = opened.api('DELETE', `deleted/job/${id}`)
  await eventually(async () =>
    expect(
      await env.sql("SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"),
    ).toHaveLength(1),
  )
  await goOn()
  expect((await deleted).status).toBe(204)
  expect(await opened.consume('deleted', '?timeout=2')).toBeNull()
})

test.each([
  ['comes again', 2],
  ['is a dead letter', 1],
])('b: a job that was taken for an answer that never arrives %s after its ttr', async (_, tries) => {
  const { network, opened } = await distant()
  const queue = `unheard-${tries}`
  const id = await opened.publish(queue, 'x', `?tries=${tries}`)
  const consumed = { status: 0 }
  const { goOn } = await stopped(() =>
    opened.api('GET', `${queue}?ttr=1`).then(({ status }) => Object.assign(consumed, { status })),
  )
  network.silence()
  await goOn()
  await eventually(async () => expect(await working(queue)).toBe(1))
  network.cut()
  await eventually(() => expect(consumed.status).toBe(503))
  network.restore()
  const other = await gateway()
  if (tries > 1)
    expect(await other.consume(queue, '?timeout=10')).toMatchObject({ job_id: id, remain_tries: 0 })
  else {
    await eventually(async () =>
      expect((await other.api('GET', `${queue}/deadletter`)).json.deadletter_head).toBe(id),
    )
    expect((await other.api('PUT', `${queue}/deadletter`)).json.count).toBe(1)
    expect(decoded((await other.consume(queue)).data)).toBe('x')
  }
})

test('without the database, each request is 503 with Retry-After, does nothing by half, and all goes on once it is back', async () => {
  const { network, opened } = await distant()
  const { api, publish } = opened
  const old = await publish('away', 'old', '?tries=3')
  await publish('taken', 'x')
  const { job_id } = (await api('GET', 'taken?ttr=600')).json
  const waiting = api('GET', 'nothing?timeout=60')
  await env.idle({ name: 'ns/nothing' } as never)
  network.cut()
  const answers = await Promise.all([
    api('PUT', 'away', { body: 'x' }),
    api('PUT', 'away/bulk', { body: '[1,2]' }),
    api('PUT', `away/job/${old}`, { body: 'x' }),
    api('GET', 'away'),
    api('GET', 'away?count=5'),
    api('GET', 'away/peek'),
    api('GET', `away/job/${old}`),
    api('GET', 'away/size'),
    api('GET', 'away/deadletter'),
    api('GET', 'away/deadletter/size'),
    api('PUT', 'away/deadletter'),
    api('DELETE', 'away/deadletter'),
    api('DELETE', `taken/job/${job_id}`),
    api('DELETE', 'away'),
  ])
  for (const { status, headers, json } of answers)
    expect([status, headers['retry-after'], json]).toEqual([503, '1', { error: 'internal error' }])
  const { items } = await env.lockstep.find('ns/away', {})
  expect(items.map(({ id, state }) => [id, state])).toEqual([[old, 'waiting']])
  expect(await working('taken')).toBe(1)
  network.restore()
  await eventually(async () => expect((await api('DELETE', `taken/job/${job_id}`)).status).toBe(204))
  await eventually(async () => expect((await api('PUT', 'away', { body: 'new' })).status).toBe(201))
  expect(await working('taken')).toBe(0)
  const jobs = await eventually(async () => {
    const { status, json } = await api('GET', 'away?count=5&timeout=5')
    expect(status).toBe(200)
    return json
  })
  expect(jobs.map(({ data }: { data: string }) => decoded(data))).toEqual(['old', 'new'])
  // Whoever waited all the time gets what comes then.
  await publish('nothing', 'x')
  expect((await waiting).status).toBe(200)
})
