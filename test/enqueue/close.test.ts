import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const CLOSED = { name: 'LockstepError', code: 'LOCKSTEP_CLOSED' }

const bulk = (call: number) => Array.from({ length: 1_500 }, (_, index) => ({ id: `${call}-${index}` }))

describe('close()', () => {
  test('P2: what was pushed before is stored, though it waited for a connection', async () => {
    const queue = defineQueue('closing')
    const lockstep = new Lockstep({ connectionString: env.connectionString, logger: env.logger })
    const calls = Array.from({ length: 30 }, (_, call) => lockstep.enqueue(queue, bulk(call)))
    const found = lockstep.stats()
    await Promise.all([lockstep.close(), lockstep.close()])
    expect(await Promise.all(calls)).toEqual(calls.map(() => 1_500))
    expect((await found).queues).toBeDefined()
    expect(await env.jobs(queue)).toBe(calls.length * 1_500)
  })

  test('what is pushed afterwards is refused, and stored nowhere', async () => {
    const queue = defineQueue('closed')
    const pool = new pg.Pool({ connectionString: env.connectionString, max: 1 })
    env.later(() => pool.end())
    for (const options of [{ pool }, { connectionString: env.connectionString }]) {
      const lockstep = new Lockstep({ ...options, logger: env.logger })
      await lockstep.enqueue(queue, { id: 'before' })
      const closing = lockstep.close()
      await expect(lockstep.enqueue(queue, { id: 'after' })).rejects.toMatchObject(CLOSED)
      await closing
      await expect(lockstep.enqueue(queue, { id: 'after' })).rejects.toMatchObject(CLOSED)
    }
    expect(await env.jobs(queue)).toBe(1)
  })

  test('waits for what administers, and stops what works in chunks between two of them', async () => {
    const queue = defineQueue('administered')
    await env.lockstep.enqueue(queue, bulk(0))
    const lockstep = new Lockstep({ connectionString: env.connectionString, logger: env.logger })
    const killing = lockstep.kill(queue, {})
    const killed = killing.then(
      () => true,
      (error) => expect(error).toMatchObject({ code: 'LOCKSTEP_CLOSED' }),
    )
    const calls = [lockstep.pause(queue), lockstep.find(queue), lockstep.findDead(queue)]
    await lockstep.close()
    await Promise.all(calls)
    await killed
    const [counts] = (await env.lockstep.stats()).queues.filter(({ queue: name }) => name === queue.name)
    expect(counts!.waiting + counts!.dead).toBe(bulk(0).length)
    expect(counts!.pausedAt).not.toBeNull()
  })

  test('waits for calls over a pool that was given, so that it can be ended next', async () => {
    const queue = defineQueue('given')
    const pool = new pg.Pool({ connectionString: env.connectionString, max: 1 })
    const lockstep = new Lockstep({ pool, logger: env.logger })
    const calls = Array.from({ length: 5 }, (_, call) => lockstep.enqueue(queue, bulk(call)))
    await lockstep.close()
    await pool.end()
    expect(await Promise.all(calls)).toEqual(calls.map(() => 1_500))
  })
})

test('a pool that has ended, or has no connection left, is told by its code', async () => {
  // Long enough to connect on a busy machine.
  const pool = new pg.Pool({ connectionString: env.connectionString, max: 1, connectionTimeoutMillis: 1_000 })
  const lockstep = new Lockstep({ pool, logger: env.logger })
  const held = await pool.connect()
  const lacking = { name: 'DatabaseError', code: 'LOCKSTEP_CONNECTION', message: /connection of the pool/ }
  await expect(lockstep.stats()).rejects.toMatchObject({
    ...lacking,
    message: expect.stringMatching(lacking.message),
  })
  await expect(lockstep.enqueue(defineQueue('busy'), bulk(0))).rejects.toMatchObject({ code: lacking.code })
  held.release()
  await pool.end()
  await expect(lockstep.stats()).rejects.toMatchObject({ name: 'DatabaseError', code: 'LOCKSTEP_CLOSED' })
})
