import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { Network } from '../support/network.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const queue = defineQueue('lost')
const LOST = {
  name: 'DatabaseError',
  code: 'LOCKSTEP_CONNECTION',
  message: expect.stringMatching(/; the session has ended, .*: start again on another connection$/),
  cause: expect.any(Error),
}

async function settingsOf(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query(
    `SELECT name FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`,
  )
  return rows.map(({ name }) => name)
}

/** Waits until one session waits: for a lock, or in pg_sleep. */
const someoneWaits = (how: "wait_event_type = 'Lock'" | "wait_event = 'PgSleep'") =>
  eventually(async () => {
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND ${how}`
    expect(await env.sql(waiting)).toHaveLength(1)
  })

const push = (tx: pg.ClientBase) => env.lockstep.enqueue(queue, { id: 'a' }, { tx })

describe('a push in a transaction whose session the server ended tells that, by its code', () => {
  test('at a time-out between two statements', async () => {
    const first = await env.session()
    for (const setting of await settingsOf(first)) {
      const tx = await env.session()
      const ended = new Promise((resolve) => tx.once('end', resolve))
      await tx.query(`BEGIN; SET LOCAL ${setting} = 20`)
      await ended
      await expect(push(tx), setting).rejects.toMatchObject(LOST)
    }
    expect(await env.jobs(queue)).toBe(0)
  })

  test('while it is under way, at a time-out or by hand', async () => {
    await env.lockstep.enqueue(queue, { id: 'a' })
    const holder = await env.session()
    await holder.query('BEGIN; SELECT FROM lockstep.jobs FOR UPDATE')
    const ends = (await settingsOf(holder)).includes('transaction_timeout') ? ['time-out', 'hand'] : ['hand']
    for (const end of ends) {
      const tx = await env.session()
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
      await tx.query(`BEGIN; ${end === 'time-out' ? 'SET LOCAL transaction_timeout = 300' : ''}`)
      const pushed = push(tx).catch((error) => error)
      if (end === 'hand') await env.sql('SELECT pg_terminate_backend($1)', [rows[0].pid])
      expect(await pushed, end).toMatchObject(LOST)
    }
    await holder.query('ROLLBACK')
  })
})

test('a push in a transaction whose client waits no longer says so, and that the transaction must not go on', async () => {
  await env.lockstep.enqueue(queue, { id: 'a' })
  const holder = await env.session()
  await holder.query('BEGIN; SELECT FROM lockstep.jobs FOR UPDATE')
  const tx = new pg.Client({ connectionString: env.connectionString, query_timeout: 200 })
  await tx.connect()
  env.later(() => tx.end())
  await tx.query('BEGIN')
  await expect(push(tx)).rejects.toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
    message: expect.stringMatching(/the server may still carry the statement out: roll the transaction back/),
  })
  await holder.query('ROLLBACK')
})

describe('a push outside a transaction tells by its code', () => {
  test('that no session began', async () => {
    const network = await Network.to(env.connectionString)
    env.later(() => network.close())
    network.silence()
    const { connectionString } = network
    const pool = new pg.Pool({ connectionString, max: 1, connectionTimeoutMillis: 100 })
    const lockstep = new Lockstep({ pool, logger: env.logger })
    await expect(lockstep.enqueue(queue, { id: 'a' })).rejects.toMatchObject({
      code: 'LOCKSTEP_CONNECTION',
      message: expect.stringMatching(/check host, port and network/),
    })
    await pool.end()
  })

  test('that its connection broke, and that it may have been carried out', async () => {
    const { network, lockstep } = await env.distant()
    const holder = await env.session()
    await lockstep.enqueue(queue, { id: 'a' })
    await holder.query('BEGIN; SELECT FROM lockstep.jobs FOR UPDATE')
    const pushed = lockstep.enqueue(queue, { id: 'a' }).catch((error) => error)
    await someoneWaits("wait_event_type = 'Lock'")
    network.cut()
    expect(await pushed).toMatchObject({
      code: 'LOCKSTEP_CONNECTION',
      message: expect.stringMatching('may have been carried out or not: try it again'),
    })
    await holder.query('ROLLBACK')
  })

  test('that its connection broke in the COMMIT of a large call, which may have been carried out', async () => {
    await env.sql(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$`)
    await env.sql(`CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON lockstep.jobs DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (NEW.id = 'last') EXECUTE FUNCTION dawdle()`)
    env.later(() => env.sql('DROP FUNCTION dawdle CASCADE'))
    const { network, lockstep } = await env.distant()
    const large = defineQueue('large')
    const jobs = Array.from({ length: 1_500 }, (_, i) => ({ id: i === 1_499 ? 'last' : `${i}` }))
    const pushed = lockstep.enqueue(large, jobs).catch((error) => error)
    await someoneWaits("wait_event = 'PgSleep'")
    network.cut()
    expect(await pushed).toMatchObject({
      code: 'LOCKSTEP_CONNECTION',
      message: expect.stringMatching('may have been carried out or not: try it again'),
    })
    await eventually(async () => expect(await env.jobs(large)).toBe(1_500))
  })
})

test('a push in a sound transaction, while the Lockstep’s own connection breaks, tells which one it was', async () => {
  const { network, lockstep } = await env.distant()
  const holder = await env.session()
  await holder.query('BEGIN; LOCK TABLE lockstep.queues')
  const tx = await env.session()
  await tx.query('BEGIN')
  const pushed = lockstep.enqueue(defineQueue('new'), { id: 'a' }, { tx }).catch((error) => error)
  await someoneWaits("wait_event_type = 'Lock'")
  network.cut()
  expect(await pushed).toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
    message: expect.stringMatching(
      /; that was a connection of the Lockstep itself, before the call did anything/,
    ),
  })
  await holder.query('ROLLBACK')
  network.restore()
  // The pool learns one by one that its connections are gone.
  await eventually(() => lockstep.enqueue(defineQueue('new'), { id: 'a' }, { tx }))
  await tx.query('COMMIT')
  expect(await env.jobs(defineQueue('new'))).toBe(1)
})

test('so does a look in one, which pushes nothing', async () => {
  const { network, lockstep } = await env.distant()
  const tx = await env.session()
  await tx.query('BEGIN')
  network.refuse()
  await expect(lockstep.stats({ tx })).rejects.toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
    message: expect.stringMatching(/of the Lockstep itself, before the call did anything: try it again/),
  })
  await tx.query('COMMIT')
})

test('a push into a queue that was deleted makes it anew, and in a transaction says what to do', async () => {
  const refusal = {
    code: 'LOCKSTEP_CONFLICT',
    message:
      'queue "gone" was deleted, or created after the transaction began; try again: if you passed a transaction, roll it back and repeat it from its beginning',
  }
  const gone = defineQueue('gone')
  await env.lockstep.enqueue(gone, { id: 'a' })
  await env.lockstep.deleteQueue(gone, { withJobs: true })
  expect(await env.lockstep.enqueue(gone, { id: 'a' })).toBe(1)
  const tx = await env.session()
  await env.lockstep.deleteQueue(gone, { withJobs: true })
  await tx.query('BEGIN')
  await expect(env.lockstep.enqueue(gone, { id: 'a' }, { tx })).rejects.toMatchObject(refusal)
  await tx.query('ROLLBACK')
  await env.lockstep.enqueue(gone, { id: 'a' })
})
