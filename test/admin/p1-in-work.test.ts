import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openStage, pidOf, type Stage, untilBlocked } from '../support/rounds.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterEach(() => stage.endSessions())
afterAll(() => stage?.close())

describe.each(['perform_now', 'delete_jobs', 'kill'])('P1 R11 %s, told to take a job', (action) => {
  const call = `SELECT lockstep.${action}($1, ARRAY['a']) AS done`

  test('that is in work, leaves it alone', async () => {
    const board = await stage.queue()
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const player = await board.player()
    const round = await player.take()
    const before = await board.job('a')

    expect(await stage.query(call, [board.queueId])).toEqual([{ done: 0 }])
    expect(await board.job('a')).toEqual(before)
    expect(await board.dead('a')).toEqual([])
    expect(await player.complete(round)).toEqual([])
    expect(await board.countPayloads()).toBe(0)
  })

  test('that somebody claims meanwhile, waits for that and leaves it alone', async () => {
    const board = await stage.queue()
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const player = await board.player()
    const claiming = await stage.transaction()
    const [round] = (await player.on(claiming).claim()).rounds
    const person = await stage.session()
    const pid = await pidOf(person)
    const told = person.query(call, [board.queueId])
    await untilBlocked(stage, pid)
    await claiming.query('COMMIT')

    expect((await told).rows).toEqual([{ done: 0 }])
    expect(await board.job('a')).toMatchObject({ claimed_by: player.processId, fence: round!.fence })
    expect(await player.complete(round!)).toEqual([])
    expect(await board.countPayloads()).toBe(0)
  })
})
