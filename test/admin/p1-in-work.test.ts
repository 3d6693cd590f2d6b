import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openStore, pidOf, type StoreEnvironment, untilBlocked } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

describe.each(['perform_now', 'delete_jobs', 'kill'])('P1 R11 %s, told to take a job', (action) => {
  const call = `SELECT lockstep.${action}($1, ARRAY['a']) AS done`

  test('that is in work, leaves it alone', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    const before = await testQueue.job('a')

    expect(await env.query(call, [testQueue.queueId])).toEqual([{ done: 0 }])
    expect(await testQueue.job('a')).toEqual(before)
    expect(await testQueue.dead('a')).toEqual([])
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('that somebody claims meanwhile, waits for that and leaves it alone', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const claimer = await testQueue.claimer()
    const claiming = await env.transaction()
    const [round] = (await claimer.on(claiming).claim()).rounds
    const person = await env.session()
    const pid = await pidOf(person)
    const told = person.query(call, [testQueue.queueId])
    await untilBlocked(env, pid)
    await claiming.query('COMMIT')

    expect((await told).rows).toEqual([{ done: 0 }])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: claimer.processId, fence: round!.fence })
    expect(await claimer.complete(round!)).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })
})
