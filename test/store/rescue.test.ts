import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { lookAtProcesses, removeProcess, removeSilent, renewLeases } from '../../src/store/process.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  pidOf,
  type StoreEnvironment,
  shown,
  type TestQueue,
  through,
  untilBlocked,
} from '../support/store-environment.ts'
import { Gate } from './gate.ts'

const PAST = 1_536_323_288_000

let env: StoreEnvironment
let testQueue: TestQueue
let dying: Claimer
let heir: Claimer

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue({ batchSize: 10 })
  dying = await testQueue.claimer()
  heir = await testQueue.claimer()
})
afterEach(() => env.endSessions())

const renew = (processId: number, on: Parameters<typeof renewLeases>[0] = env.database.pool) =>
  renewLeases(on, 'lockstep', [processId], 60_000)

/** What an observer sees of the process now. */
const sightOf = async (processId: number) =>
  (await lookAtProcesses(env.database)).find((one) => one.processId === processId)!

/** Has the effect of a jump of the server's clock. */
const moveEnd = (processId: number, by: string) =>
  env.query(`UPDATE lockstep.processes SET expires_at = expires_at + $2::interval WHERE process_id = $1`, [
    processId,
    by,
  ])

const isKnown = async (processId: number) =>
  (await env.query('SELECT FROM lockstep.processes WHERE process_id = $1', [processId])).length === 1

describe('R10 a round whose process died', () => {
  test('is claimable again with its numbers unchanged and a crash counted', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST })
    await dying.fail([await dying.take()])
    const lost = await dying.take()
    await testQueue.push({ id: 'a', payload: 'w', score: 2, performIn: 4_102_444_800_000 })
    await env.expire(dying.processId)

    const rescued = await heir.take()
    expect(rescued).toMatchObject({
      rescued: true,
      crashes: 1,
      retryCount: 0,
      error: 'failed',
      performIn: lost.performIn,
    })
    expect(rescued.fence).toBeGreaterThan(lost.fence)
    expect(shown([rescued])).toEqual(['a: v[1] w[2]'])
    expect(await heir.complete(rescued)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('is claimable too when the process has left the table', async () => {
    await testQueue.push({ id: 'a' })
    await dying.take()
    await removeProcess(env.database.pool, 'lockstep', dying.processId)
    expect(await heir.take()).toMatchObject({ rescued: true, crashes: 1 })
  })

  test('stays its own while the lease runs', async () => {
    await testQueue.push({ id: 'a' })
    await dying.take()
    expect((await heir.claim()).rounds).toEqual([])
    expect((await dying.claim()).rounds).toEqual([])
  })

  test('counts crashes in a row; an end of any kind but a release starts anew', async () => {
    await testQueue.push({ id: 'a' })
    const crash = async () => {
      const victim = await testQueue.claimer()
      const round = await victim.take()
      await env.expire(victim.processId)
      return round.crashes
    }
    expect([await crash(), await crash(), await crash()]).toEqual([0, 1, 2])
    const third = await heir.take()
    expect(third.crashes).toBe(3)
    await heir.release(third)
    const again = await heir.take()
    expect(again).toMatchObject({ crashes: 3, rescued: false })

    await heir.fail([again])
    expect(await crash()).toBe(0)
    const rescued = await heir.take()
    expect(rescued.crashes).toBe(1)
    await testQueue.push({ id: 'a', payload: 2 })
    await heir.complete(rescued)
    expect((await heir.take()).crashes).toBe(0)
  })

  test('is taken alone, and what stands before it goes first', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e']
    await testQueue.push({ id: 'c', performIn: PAST })
    await dying.claim()
    await env.expire(dying.processId)
    await testQueue.push(...ids.map((id) => ({ id, performIn: PAST })))

    const taken: string[][] = []
    for (let n = 0; n < 3; n += 1) taken.push((await heir.claim()).rounds.map(({ id }) => id))
    expect(taken).toEqual([['a', 'b'], ['c'], ['d', 'e']])
  })

  test('stays a suspect when it is released', async () => {
    await testQueue.push({ id: 'b', performIn: PAST })
    await dying.claim()
    await env.expire(dying.processId)
    await heir.release(await heir.take())
    await testQueue.push({ id: 'a', performIn: PAST - 1 }, { id: 'c', performIn: PAST + 1 })
    const batch = async () => (await heir.claim()).rounds.map(({ id }) => id)
    expect([await batch(), await batch(), await batch()]).toEqual([['a'], ['b'], ['c']])
  })

  test('several of one dead process go to several heirs, each once', async () => {
    const ids = ['a', 'b', 'c', 'd']
    await testQueue.push(...ids.map((id) => ({ id, performIn: PAST })))
    await dying.claim()
    await env.expire(dying.processId)
    const claims = await Promise.all(ids.map(async () => (await testQueue.claimer()).claim()))
    const taken = claims.flatMap(({ rounds }) => rounds.map(({ id }) => id))
    expect(taken).toEqual([...new Set(taken)])
    while (taken.length < ids.length) taken.push((await heir.take()).id)
    expect(taken.sort()).toEqual(ids)
  })
})

describe('P1 a lease', () => {
  test('is renewed as long as the row is there, whatever the server’s clock says, and never after', async () => {
    const { renewal } = await sightOf(dying.processId)
    await moveEnd(dying.processId, '-1 hour')
    expect(await renew(dying.processId)).toEqual([dying.processId])
    expect((await sightOf(dying.processId)).renewal).not.toBe(renewal)
    await env.expire(dying.processId)
    expect(await renew(dying.processId)).toEqual([])
    expect(await isKnown(dying.processId)).toBe(false)
  })

  test('of a removed process claims nothing: the server would give the job to the next one too', async () => {
    await testQueue.push({ id: 'a' })
    await env.expire(dying.processId)
    expect(await dying.claim()).toEqual({ rounds: [], head: null, passed: false })
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null })
  })

  test.each(['-1 hour', '1 hour'])('runs on where the server’s clock jumps: its end lies %s', async (by) => {
    await testQueue.push({ id: 'a' })
    const round = await dying.take()
    await moveEnd(dying.processId, by)
    expect((await heir.claim()).rounds).toEqual([])
    expect((await env.lockstep.find(testQueue.queue, {})).items).toMatchObject([{ state: 'working' }])
    expect(await env.lockstep.delete(testQueue.queue, { ids: ['a'] })).toMatchObject({ done: 0 })
    await testQueue.push({ id: 'b' })
    expect((await dying.take()).id).toBe('b')
    expect(await dying.complete(round)).toEqual([])
  })

  test('ends though its end lies an hour ahead, once its renewals stand still', async () => {
    await testQueue.push({ id: 'a' })
    await dying.take()
    await moveEnd(dying.processId, '1 hour')
    const seen = await sightOf(dying.processId)
    expect(await removeSilent(env.database, [seen])).toEqual([dying.processId])
    expect(await heir.take()).toMatchObject({ rescued: true, crashes: 1 })
  })

  test('that was renewed since it was looked at goes on', async () => {
    await testQueue.push({ id: 'a' })
    await dying.take()
    const seen = await sightOf(dying.processId)
    await renew(dying.processId)
    expect(await removeSilent(env.database, [seen, await sightOf(heir.processId)])).toEqual([heir.processId])
    expect((await (await testQueue.claimer()).claim()).rounds).toEqual([])
  })

  test('whose last renewal a failover has lost, and that was renewed again, goes on', async () => {
    const former = await sightOf(dying.processId)
    await renew(dying.processId)
    const seen = await sightOf(dying.processId)
    await env.query('UPDATE lockstep.processes SET renewal = $2 WHERE process_id = $1', [
      dying.processId,
      former.renewal,
    ])
    await renew(dying.processId)
    expect(await removeSilent(env.database, [seen])).toEqual([])
  })

  test('that is being renewed right now goes on, whatever the committed row says', async () => {
    await testQueue.push({ id: 'a' })
    await dying.take()
    const seen = await sightOf(dying.processId)
    const renewal = await env.transaction()
    expect(await renew(dying.processId, renewal)).toEqual([dying.processId])
    expect(await removeSilent(env.database, [seen])).toEqual([])
    await renewal.query('COMMIT')
    expect(await removeSilent(env.database, [seen])).toEqual([])
    expect((await heir.claim()).rounds).toEqual([])
  })

  test('can’t be renewed any more once it is being removed: the renewal waits for that, and finds nothing', async () => {
    await testQueue.push({ id: 'a' })
    const lost = await dying.take()
    const seen = await sightOf(dying.processId)
    const removing = await env.transaction()
    expect(await removeSilent(through(removing, env.database), [seen])).toEqual([dying.processId])
    expect((await heir.claim()).rounds).toEqual([])

    const renewal = await env.session()
    const pid = await pidOf(renewal)
    const renewed = renew(dying.processId, renewal)
    await untilBlocked(env, pid)
    await removing.query('COMMIT')
    expect(await renewed).toEqual([])
    const round = await heir.take()
    expect(outcomes(await dying.complete(lost))).toEqual(['a lost'])
    expect(await heir.complete(round)).toEqual([])
  })

  test('of a process that registered after a claim’s snapshot is not over: the claim leaves its job alone', async () => {
    const gate = new Gate(env)
    await gate.install()
    await gate.gateClaims()
    await testQueue.push({ id: 'a', performIn: PAST }, { id: 'b', performIn: PAST + 1 })
    // The claim stops at the row of this job, whose process is live and stays so.
    await dying.take()
    let late: Claimer | undefined
    const { rounds } = await gate.during(
      (session) => heir.on(session).claim(),
      async () => {
        late = await testQueue.claimer()
        expect((await late.take()).id).toBe('b')
      },
    )
    expect(rounds).toEqual([])
    expect(await testQueue.job('b')).toMatchObject({ claimed_by: late!.processId, crashes: 0 })
  })
})
