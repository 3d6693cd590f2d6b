import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { respawn, respawnInTime } from '../../src/store/respawn.ts'
import {
  openStore,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  through,
  until,
  untilBlocked,
} from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

const RESPAWNED = { tries: 1, expires: 0 }

/** They died in this order. */
async function dead(...ids: string[]): Promise<void> {
  for (const id of ids) {
    await testQueue.push({ id, payload: 1, headers: { tries: 5 } })
    await env.lockstep.kill(testQueue.queue, { ids: [id] })
  }
}

/** Respawns two while `first` is still open in a session of its own, and waits for it. Resolves to how many. */
async function after(first: (lockstep: typeof env.database) => Promise<unknown>): Promise<number> {
  const [open, session] = [await env.transaction(), await env.session()]
  await first(through(open, env.database))
  const pid = await pidOf(session)
  const second = respawn(through(session, env.database), testQueue.queue.name, 2, RESPAWNED)
  await untilBlocked(env, pid)
  await open.query('COMMIT')
  return second
}

const claimed = async () => (await (await testQueue.claimer()).claim({ batchSize: 10 })).rounds

test('B5: two respawns at once bring as many as both want, the oldest first', async () => {
  await dead('d', 'c', 'b', 'a', 'left')
  const { name } = testQueue.queue
  expect(await after((database) => respawn(database, name, 2, RESPAWNED))).toBe(2)
  expect((await claimed()).map(({ id }) => id)).toEqual(['d', 'c', 'b', 'a'])
})

test('what another session has requeued meanwhile stays as it is', async () => {
  await dead('d', 'c', 'b')
  expect(
    await after((database) =>
      database.query(
        `SELECT lockstep.requeue(queue_id, ARRAY[job_id], ARRAY[digest]) FROM lockstep.morgue WHERE job_id = 'd' AND queue_id = $1`,
        [testQueue.queueId],
      ),
    ),
  ).toBe(2)
  const rounds = await claimed()
  expect(rounds.map(({ id, headers }) => [id, headers])).toEqual([
    ['d', [{ tries: 5 }]],
    ['c', [{ tries: 1, expires: 0 }]],
    ['b', [{ tries: 1, expires: 0 }]],
  ])
})

describe('P7 what an open transaction holds', () => {
  /** Sessions that are in a respawn. */
  const respawning = () =>
    env.query(
      `SELECT wait_event_type FROM pg_stat_activity
       WHERE datname = current_database() AND state = 'active' AND query ~ 'respawn' AND pid <> pg_backend_pid()`,
    )
  const inTime = (most: number, patience = 5_000) =>
    respawnInTime(env.database, testQueue.queue.name, most, RESPAWNED, performance.now() + patience)

  async function holding(...ids: string[]) {
    const producer = await env.transaction()
    await testQueue.pushIn(producer, ...ids.map((id) => ({ id, payload: 'held' })))
    return producer
  }

  test('is passed over, and what died later comes in its place', async () => {
    await dead('d', 'c', 'b', 'a', 'left')
    const producer = await holding('c')
    expect(await inTime(3)).toBe(3)
    const rounds = await claimed()
    expect(rounds.map(({ id, headers }) => [id, headers])).toEqual(
      ['d', 'b', 'a'].map((id) => [id, [RESPAWNED]]),
    )
    await producer.query('ROLLBACK')
    expect(await inTime(3)).toBe(2)
  })

  test('is waited for if there is nothing else, and in vain: then nothing is done, and no statement goes on', async () => {
    await dead('b', 'a')
    const producer = await holding('a', 'b')
    await expect(inTime(2, 500)).rejects.toMatchObject({ code: 'LOCKSTEP_LOCKED' })
    expect(await respawning()).toEqual([])
    await producer.query('COMMIT')
    expect((await testQueue.dead('a')).length + (await testQueue.dead('b')).length).toBe(2)
    expect(await inTime(2)).toBe(2)
  })

  test('is waited for by few connections, however many respawn', async () => {
    await dead('a')
    const producer = await holding('a')
    const all = Array.from({ length: 20 }, () => inTime(1))
    // Once each has been tried.
    await until(async () => {
      const seen: number[] = []
      while (seen.length < 10) {
        await testQueue.push({ id: 'free' })
        seen.push((await respawning()).filter(({ wait_event_type: type }) => type === 'Lock').length)
      }
      expect(Math.max(...seen)).toBe(4)
    })
    await producer.query('COMMIT')
    const counts = await Promise.all(all)
    expect(counts.reduce((sum, count) => sum + count)).toBe(1)
  })
})
