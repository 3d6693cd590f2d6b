import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { anyExpired, hasExpired, sortByExpiry } from '../../src/store/left-out.ts'
import { openStore, type StoreEnvironment, shown, type TestQueue } from '../support/store-environment.ts'

const HOUR = 3_600_000

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

const inHours = (hours: number) => Date.now() + hours * HOUR
const long = inHours(1)

/** `v1[1] in 1 h` or `v1[1]` for each waiting payload of an id. */
async function expiries(id: string): Promise<string[]> {
  const [row] = await env.query<{ payloads: { payload: unknown; score: number; expiresIn?: number }[] }>(
    'SELECT payloads FROM lockstep.waiting WHERE queue = $1 AND id = $2',
    [testQueue.queue.name, id],
  )
  return (row?.payloads ?? []).map(({ payload, score, expiresIn }) => {
    const hours = expiresIn === undefined ? '' : ` in ${Math.round((expiresIn - Date.now()) / HOUR)} h`
    return `${payload}[${score}]${hours}`
  })
}

describe('R17 equal payloads', () => {
  const push = (id: string, score: number, expiresIn?: number) =>
    testQueue.push({ id, payload: 'v', score, ...(expiresIn !== undefined && { expiresIn }) })

  test.each([
    ['a later time prolongs', [inHours(1), inHours(3)], 'v[1] in 3 h'],
    ['an earlier time does not shorten', [inHours(3), inHours(1)], 'v[1] in 3 h'],
    ['never is the latest', [inHours(1), undefined], 'v[1]'],
    ['and stays', [undefined, inHours(1)], 'v[1]'],
  ])('merge: %s', async (name, times, merged) => {
    for (const [place, id] of [`${name} carried`, `${name} apart`].entries()) {
      if (place === 1) await testQueue.push({ id, payload: 'w', score: 0 })
      await push(id, 2, times[0])
      await push(id, 1, times[1])
      expect((await expiries(id)).at(-1)).toBe(merged)
      const claimer = await testQueue.claimer()
      const { rounds } = await claimer.claim({ batchSize: 100 })
      const expiry = rounds.find((round) => round.id === id)!.expiries?.at(-1) ?? undefined
      expect(expiry && Math.round((expiry / 1000 - Date.now()) / HOUR)).toBe(
        merged.includes('3 h') ? 3 : undefined,
      )
      await claimer.complete(...rounds)
    }
  })

  test('merge in one call, too', async () => {
    await testQueue.push(
      { id: 'one call', payload: 'v', score: 2, expiresIn: inHours(1) },
      { id: 'one call', payload: 'v', score: 3, expiresIn: inHours(5) },
      { id: 'one call', payload: 'w', score: 1, expiresIn: inHours(2) },
      { id: 'one call', payload: 'w', score: 4 },
    )
    expect(await expiries('one call')).toEqual(['w[1]', 'v[2] in 5 h'])
  })

  test('a push that would prolong nothing, and has no lower score, changes nothing', async () => {
    await push('still', 1, inHours(3))
    const before = await env.query('SELECT xmin::text FROM lockstep.jobs WHERE id = $1', ['still'])
    await push('still', 1, inHours(1))
    expect(
      await env.query('SELECT count(*)::int FROM lockstep.payloads WHERE job_id = $1', ['still']),
    ).toEqual([{ count: 0 }])
    expect(await testQueue.job('still')).toMatchObject({ has_payloads: false })
    expect(before).toHaveLength(1)
  })

  test.each(['carried', 'apart'])(
    'one that has expired lends nothing to one pushed after it: %s',
    async (place) => {
      const id = `ghost ${place}`
      if (place === 'apart') await testQueue.push({ id, payload: 'first', score: 0 })
      await testQueue.push({ id, payload: 'v', score: 1, expiresIn: long, headers: { of: 'the ghost' } })
      await testQueue.letExpire(id)
      await testQueue.push({ id, payload: 'w', score: 3 })
      await testQueue.push({ id, payload: 'v', score: 5, headers: { of: 'the living' } })
      const claimer = await testQueue.claimer()
      const round = await claimer.take()
      expect(shown([round])[0]).toMatch(/w\[3\] v\[5\]$/)
      expect(round.headers?.at(-1)).toEqual({ of: 'the living' })
      await claimer.complete(round)
      expect(await testQueue.findJob(id)).toBeUndefined()
    },
  )

  test('one that is pushed after its time changes nothing', async () => {
    await push('late', 5)
    await testQueue.push({ id: 'late', payload: 'w', score: 3 })
    await push('late', 1, inHours(-1))
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect(shown([round])).toEqual(['late: w[3] v[5]'])
    await claimer.complete(round)
    // And in one call.
    await testQueue.push(
      { id: 'late', payload: 'v', score: 1, expiresIn: inHours(-1) },
      { id: 'late', payload: 'v', score: 5, expiresIn: inHours(2) },
      { id: 'late', payload: 'w', score: 3 },
    )
    const again = await claimer.take()
    expect(shown([again])).toEqual(['late: w[3] v[5]'])
    await claimer.complete(again)
  })
})

describe('R17 a round', () => {
  test('tells when each payload expires, and leaves out what had expired when it was claimed', async () => {
    await testQueue.push({ id: 'some', payload: 'carried', score: 1, expiresIn: long })
    await testQueue.push(
      { id: 'some', payload: 'gone', score: 2, expiresIn: long },
      { id: 'some', payload: 'ever', score: 3 },
    )
    await testQueue.letExpire('some', 'gone')
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect(shown([round])).toEqual(['some: carried[1] ever[3]'])
    expect(round).toMatchObject({ expired: 1, expiries: [long * 1000, null] })
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.countPayloads('some')).toBe(0)
  })

  test.each([undefined, 2])(
    'is told from one whose payloads were lost: with maxPayloads %s',
    async (maxPayloads) => {
      const testQueue = await env.queue(maxPayloads ? { maxPayloads } : {})
      for (const count of [1, 3]) {
        const jobs = Array.from({ length: count }, (_, payload) => ({
          id: 'all',
          payload,
          score: payload,
          expiresIn: long,
        }))
        await testQueue.push(...jobs)
        await testQueue.letExpire('all')
        const claimer = await testQueue.claimer()
        const round = await claimer.take()
        expect(round).toMatchObject({ payloads: [], expired: count })
        expect(hasExpired(round)).toBe(true)
        await claimer.complete(round)
        expect(await testQueue.countJobs()).toBe(0)
      }
    },
  )

  test('loads payloads with their expiries, and without what had expired', async () => {
    const testQueue = await env.queue({ maxBytes: 1_000 })
    const large = 'x'.repeat(5_000)
    await testQueue.push(
      { id: 'large', payload: 'gone', score: 0, expiresIn: long },
      { id: 'large', payload: large, score: 1, expiresIn: long },
    )
    await testQueue.letExpire('large', 'gone')
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect(round).toMatchObject({ payloads: [large], expiries: [long * 1000], expired: 1, cut: undefined })
    await claimer.complete(round)
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('counts toward maxPayloads only what had not expired', async () => {
    const testQueue = await env.queue({ maxPayloads: 2 })
    for (const [score, payload] of ['a', 'b', 'c', 'd', 'e'].entries())
      await testQueue.push({
        id: 'cut',
        payload,
        score,
        ...(['a', 'c'].includes(payload) && { expiresIn: long }),
      })
    await testQueue.letExpire('cut')
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect(shown([round])).toEqual(['cut: b[1] d[3]'])
    expect(await claimer.complete(round)).toMatchObject([{ outcome: 'again' }])
    const last = await claimer.take()
    expect(shown([last])).toEqual(['cut: e[4]'])
    // What had expired is left to the last round, and told there.
    expect(last.expired).toBe(2)
    await claimer.complete(last)
    expect(await testQueue.countJobs()).toBe(0)
  })

  test.each([false, true])(
    'P3 does not lose a payload beyond its cut whose equal has expired: by schema %s',
    async (bySchema) => {
      const testQueue = await env.queue(bySchema ? {} : { maxPayloads: 1 })
      const claimer = await testQueue.claimer()
      // Equal payloads of two rounds: one was pushed while its id was in work.
      await testQueue.push({ id: 'twice', payload: 'v', score: 1, expiresIn: long })
      const first = await claimer.take()
      await testQueue.push({ id: 'twice', payload: 'v', score: 5 }, { id: 'twice', payload: 'w', score: 3 })
      await claimer.fail([first])
      await testQueue.letExpire('twice')
      const round = await claimer.take()
      expect(shown([round])[0]).toMatch(/^twice: w\[3\]/)
      const cut = bySchema ? { ...round, cut: { score: 3, seq: round.seqs![0]! } } : round
      await claimer.complete(cut)
      const last = await claimer.take()
      expect(shown([last])).toEqual(['twice: v[5]'])
      await claimer.complete(last)
      expect(await testQueue.countJobs()).toBe(0)
    },
  )

  test('R7 that died buries the lowest payload that it was handed, and leaves alone what had expired', async () => {
    for (const payload of ['carried', 'gone', 'poison', 'other'])
      await testQueue.push({
        id: 'dies',
        payload,
        score: payload.length,
        ...(['carried', 'gone'].includes(payload) && { expiresIn: long }),
      })
    await testQueue.letExpire('dies')
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect(shown([round])).toEqual(['dies: other[5] poison[6]'])
    await claimer.fail([round], null)
    expect(await testQueue.dead('dies')).toMatchObject([{ payload: 'other' }])
    const again = await claimer.take()
    expect(shown([again])).toEqual(['dies: poison[6]'])
    expect(again.expired).toBe(2)
    await claimer.complete(again)
  })

  test('R7 that expired while its handler ran may still die', async () => {
    await testQueue.push({ id: 'slow', payload: 'v', expiresIn: long })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await env.query(
      `UPDATE lockstep.jobs SET expires_in = claimed_at + interval '1 microsecond' WHERE id = 'slow'`,
    )
    await claimer.fail([round], null)
    expect(await testQueue.dead('slow')).toMatchObject([{ payload: 'v' }])
    expect(await testQueue.findJob('slow')).toBeUndefined()
  })

  test('that is discarded buries only what it was handed', async () => {
    await testQueue.push(
      { id: 'discarded', payload: 'gone', expiresIn: long },
      { id: 'discarded', payload: 'v' },
    )
    await testQueue.letExpire('discarded')
    const claimer = await testQueue.claimer()
    await claimer.discard(await claimer.take())
    expect(await testQueue.dead('discarded')).toMatchObject([{ payload: 'v' }])
    expect(await testQueue.findJob('discarded')).toBeUndefined()
  })

  test('P5 takes nothing from what was pushed meanwhile', async () => {
    await testQueue.push({ id: 'meanwhile', payload: 'v', expiresIn: long })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await testQueue.push({ id: 'meanwhile', payload: 'v', score: 7 })
    await claimer.complete(round)
    expect(await expiries('meanwhile')).toEqual(['v[7]'])
    await claimer.complete(await claimer.take())
  })
})

describe('R17 what a person does', () => {
  test('kill lets go away what has expired', async () => {
    await testQueue.push(
      { id: 'killed', payload: 'carried', expiresIn: long },
      { id: 'killed', payload: 'gone', expiresIn: long },
      { id: 'killed', payload: 'v' },
    )
    await testQueue.letExpire('killed')
    await env.lockstep.kill(testQueue.queue, { ids: ['killed'] })
    expect(await testQueue.dead('killed')).toMatchObject([{ payload: 'v' }])
    expect(await testQueue.findJob('killed')).toBeUndefined()
  })

  test('what comes back from the morgue never expires, and prolongs an equal payload', async () => {
    await testQueue.push({ id: 'back', payload: 'v', score: 3, expiresIn: long })
    await env.lockstep.kill(testQueue.queue, { ids: ['back'] })
    await testQueue.push({ id: 'back', payload: 'w', score: 1 })
    await testQueue.push({ id: 'back', payload: 'v', score: 2, expiresIn: long })
    await env.lockstep.requeue(testQueue.queue, { ids: ['back'] })
    expect(await expiries('back')).toEqual(['w[1]', 'v[2]'])
    const claimer = await testQueue.claimer()
    await claimer.complete(await claimer.take())
  })
})

test('R17 what expires between claim and handler is left out by the clock of the server', async () => {
  await testQueue.push(
    { id: 'later', payload: 'a', score: 1, expiresIn: long },
    { id: 'later', payload: 'b', score: 2 },
  )
  const claimer = await testQueue.claimer()
  const round = await claimer.take()
  expect(anyExpired([round], long * 1000 - 1)).toBe(false)
  expect(sortByExpiry([round], long * 1000 - 1).fresh[0]).toBe(round)
  const { fresh, expired } = sortByExpiry([round], long * 1000)
  expect(shown(fresh)).toEqual(['later: b[2]'])
  expect(fresh[0]).toMatchObject({ expired: 1, expiries: [null], seqs: [round.seqs![1]] })
  expect(expired).toEqual([])
  await claimer.complete(...fresh)
})
