import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLogger } from '../../src/logger.ts'
import { Exchange } from '../../src/worker/exchange.ts'
import { ServerClock } from '../../src/worker/server-clock.ts'
import { type Claimant, Settlements } from '../../src/worker/settlements.ts'
import { type ServedQueue, Timetable } from '../../src/worker/timetable.ts'
import { openStage, type Stage } from '../support/rounds.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

// The answer to a completion was lost, and when it is asked for again the claim is gone. A process that stood still for longer
// than its lease asks before it hears that the lease has ended.
test.each([
  ['told as stored while the lease runs: nobody else can have ended it', true, 'completed'],
  ['told as refused once the lease is over: somebody else may have the job', false, 'refused'],
])(
  'P6: a claim that is gone, with the answer to its first completion lost, is %s',
  async (_, holds, told) => {
    const board = await stage.queue()
    const player = await board.player()
    await board.push({ id: 'a' })
    const round = await player.take()
    await player.complete(round)

    const events: string[] = []
    const observer = {
      holds: () => holds,
      completed: () => void events.push('completed'),
      failed: () => void events.push('failed'),
      refused: () => void events.push('refused'),
      ended: () => void events.push('ended'),
    }
    const { database } = stage
    const timetable = new Timetable(new ServerClock())
    const settlements = new Settlements(database, new Exchange(database), timetable, silentLogger, observer)
    const served = { queue: board.queue, queueId: board.queueId } as ServedQueue
    const claimant: Claimant = { served, processId: player.processId, shard: 0, slot: 0, startedAt: 0 }
    await settlements.start()
    settlements.settle(claimant, { completed: [round], failed: [], released: [] }, true)
    await settlements.drain(10_000)
    await settlements.stop()
    expect(events).toEqual([told, 'ended'])
  },
)
