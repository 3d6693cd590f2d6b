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

test('P1 a push that finds no queue, and then one with its job in it, is not lost', async () => {
  const pusher = await Stepper.open(env, 'P', new Keeper(await env.session()))
  const job = { id: 'a', payload: '"w"', score: 2, performIn: null, lane: 0, headers: null }
  await pusher.begin(async (session) => {
    await push(through(session, env.database), 'to come', [job], session)
    return 'pushed'
  })
  const goOnTo = async (place: string) => {
    while (pusher.next !== place) {
      pusher.step()
      await pusher.moved()
      expect(pusher.answer).toBe('')
    }
  }
  await goOnTo('enqueue 3')
  const queue = defineQueue('to come', { shards: 1 })
  const testQueue = new TestQueue(env, queue, await ensureQueue(env.database, queue.name, queue.shards))
  await testQueue.push({ id: 'a', payload: 'v', score: 1 })
  await goOnTo('enqueue 4')

  const worker = await testQueue.claimer()
  const { rounds } = await worker.claim()
  while (!pusher.ended) {
    pusher.step()
    await pusher.moved()
  }
  expect(pusher.answer).toBe('pushed')
  await worker.complete(...rounds)
  const handedOver = [...rounds, ...(await worker.claim()).rounds]
  expect(shown(handedOver)).toEqual(['a: v[1] w[2]'])
})
