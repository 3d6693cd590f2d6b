import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { respawn } from '../../src/store/respawn.ts'
import {
  openStore,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  through,
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
