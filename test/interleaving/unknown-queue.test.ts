import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { push } from '../../src/store/push.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { openStore, type StoreEnvironment, shown, TestQueue, through } from '../support/store-environment.ts'
import { installGates } from './gates.ts'
import { Keeper, Stepper } from './stepper.ts'

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
  await installGates(env)
})
afterAll(() => env?.close())

let queues = 0

/** A push of payload w for job a, before the statement that looks for the job. By now the queue exists, and job a in it. */
async function pushBeforeLookup() {
  const pusher = await Stepper.open(env, 'P', new Keeper(await env.session()))
  const job = {
    id: 'a',
    payload: '"w"',
    score: 2,
    performIn: null,
    lane: 0,
    headers: null,
    tenant: null,
    expiresIn: null,
  }
  const name = `to come ${++queues}`
  await pusher.begin(async (session) => {
    await push(through(session, env.database), name, [job], session)
    return 'pushed'
  })
  const goOnTo = async (place: string) => {
    while (pusher.next !== place) {
      pusher.step()
      await pusher.moved()
      expect(pusher.answer).toBe('')
    }
  }
  const end = async () => {
    while (!pusher.ended) {
      pusher.step()
      await pusher.moved()
    }
    expect(pusher.answer).toBe('pushed')
  }
  await goOnTo('enqueue 3')
  const queue = defineQueue(name, { shards: 1 })
  const testQueue = new TestQueue(env, queue, await ensureQueue(env.database, queue.name, queue.shards))
  await testQueue.push({ id: 'a', payload: 'v', score: 1 })
  return { goOnTo, end, worker: await testQueue.claimer() }
}

test('P1 a push that finds no queue, and then one with its job in it, is not lost', async () => {
  const { goOnTo, end, worker } = await pushBeforeLookup()
  // Nothing but the lookup has locked the job yet.
  await goOnTo('enqueue 4')
  const { rounds } = await worker.claim()
  await end()
  await worker.complete(...rounds)
  const handedOver = [...rounds, ...(await worker.claim()).rounds]
  expect(shown(handedOver)).toEqual(['a: v[1] w[2]'])
})

test('P5 a push that finds no queue, and then one with its job claimed, is the next round', async () => {
  const { end, worker } = await pushBeforeLookup()
  const { rounds } = await worker.claim()
  await end()
  await worker.complete(...rounds)
  expect(shown([...rounds, ...(await worker.claim()).rounds])).toEqual(['a: v[1]', 'a: w[2]'])
})
