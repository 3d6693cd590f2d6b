import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { push } from '../../src/store/push.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { Board, openStage, type Stage, shown, through } from '../support/rounds.ts'
import { installGates } from './gates.ts'
import { Keeper, Stepper } from './stepper.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
  await installGates(stage)
})
afterAll(() => stage?.close())

test('P1 a push that finds no queue, and then one with its job in it, is not lost', async () => {
  const pusher = await Stepper.open(stage, 'P', new Keeper(await stage.session()))
  const job = { id: 'a', payload: '"w"', score: 2, performIn: null, lane: 0 }
  await pusher.begin(async (session) => {
    await push(through(session, stage.database), 'to come', [job], session)
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
  const board = new Board(stage, queue, await ensureQueue(stage.database, queue.name, queue.shards))
  await board.push({ id: 'a', payload: 'v', score: 1 })
  await goOnTo('enqueue 4')

  const worker = await board.player()
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
