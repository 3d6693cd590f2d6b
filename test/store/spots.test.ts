import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Claim, Cursor } from '../../src/store/claim.ts'
import { exchange } from '../../src/store/exchange.ts'
import type { Spots } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const LIMITS = { tenant: { concurrency: 2 } }

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

/** The letter before a number is the tenant, and the number says when it is due, in ms. */
const jobOf = (id: string) => ({ id, tenant: id[0]!, lane: 0, performIn: PAST + Number(id.slice(1)) })
const micros = (id: string) => jobOf(id).performIn * 1_000
const known = (...ids: string[]): Spots => ({
  known: ids.map((id) => ({ id, performIn: micros(id), tenant: id[0]! })),
  visits: [],
})
const visits = (...ids: string[]): Spots => ({
  known: [],
  visits: ids.map((id) => ({ id: '', performIn: micros(id) })),
})
const behind = (id: string): Cursor => ({ after: micros(id), afterId: id })
const BEGINNING = { after: null, afterId: '' }

async function limited(...ids: string[]): Promise<TestQueue> {
  const testQueue = await env.queue({ limits: LIMITS })
  await replaceSetting(env.database, 'limits', [{ queueId: testQueue.queueId, value: LIMITS }])
  await testQueue.push(...ids.map(jobOf))
  return testQueue
}

async function claim(
  { queueId, queue }: TestQueue,
  spots: Spots | undefined,
  cursor: Cursor = BEGINNING,
  count = 10,
): Promise<Claim> {
  const { maxPayloads, maxBytes } = queue
  const wish = { key: { queueId, shard: 0, lane: 0 }, cursor, count, spots, maxPayloads, maxBytes }
  const { claims } = await exchange(env.database, await env.process(), [], [wish])
  return claims[0]!
}

const idsOf = ({ rounds }: Claim) => rounds.map(({ id }) => id)

describe('a claim that is told which jobs of a lane have waited', () => {
  test('takes them by their keys, in order, before what lies behind its cursor, and nothing between', async () => {
    const testQueue = await limited('a1', 'c2', 'b3', 'a4', 'd5')
    const taken = await claim(testQueue, known('a1', 'b3'), behind('a4'))
    expect(idsOf(taken)).toEqual(['a1', 'b3', 'd5'])
    expect(taken.waits).toMatchObject({ full: false, gone: [], limits: [], to: micros('d5'), toId: 'd5' })
    expect(taken.head).toBeNull()
  })

  test('leaves those of a tenant that still has no place, and repeats only what it has passed itself', async () => {
    const testQueue = await limited('a1', 'a2', 'a3', 'a4', 'b5', 'a6')
    const { waits, ...taken } = await claim(testQueue, known('a1', 'a2', 'a3'), behind('a3'))
    expect(idsOf(taken)).toEqual(['a1', 'a2', 'b5'])
    expect(waits?.limits).toMatchObject([{ tenant: 'a', until: null, from: micros('a3') }])
    expect(waits?.jobs).toEqual([
      [0, micros('a4'), 'a4'],
      [0, micros('a6'), 'a6'],
    ])
  })

  test('goes no further than it is asked to', async () => {
    const testQueue = await limited('a1', 'a2', 'a3', 'b4')
    const taken = await claim(testQueue, known('a1', 'a2', 'a3'), behind('a3'), 1)
    expect(idsOf(taken)).toEqual(['a1'])
    expect(taken).toMatchObject({ head: micros('b4'), waits: { to: micros('a3'), toId: 'a3', gone: [] } })
  })

  test('says which are gone: deleted, put off, someone else’s, or made anew for another tenant', async () => {
    const testQueue = await limited('a1', 'a2', 'a3', 'a4', 'a5')
    await env.lockstep.delete(testQueue.queue, { ids: ['a1', 'a4'] })
    await env.lockstep.performNow(testQueue.queue, { ids: ['a2'] })
    await testQueue.push({ ...jobOf('a4'), tenant: 'x' })
    await (await testQueue.claimer()).claim({ batchSize: 1 })
    const taken = await claim(testQueue, known('a1', 'a2', 'a3', 'a4', 'a5'), behind('b9'), 1)
    expect(idsOf(taken)).toEqual(['a5'])
    expect(taken.waits?.gone).toEqual(['a1', 'a2', 'a3', 'a4'])
  })

  test('passes one whose row a producer holds, which waits on', async () => {
    const testQueue = await limited('a1', 'a2')
    await testQueue.pushIn(await env.transaction(), { ...jobOf('a1'), payload: 2 })
    const taken = await claim(testQueue, known('a1', 'a2'), behind('a2'))
    expect(idsOf(taken)).toEqual(['a2'])
    expect(taken).toMatchObject({ passed: true, head: micros('a1'), waits: { gone: [] } })
  })

  test('takes each once, even if it is told twice, and lies behind the cursor too', async () => {
    const testQueue = await limited('a1', 'b2')
    const twice = { ...known('a1', 'a1'), visits: visits('a1').visits }
    expect(idsOf(await claim(testQueue, twice))).toEqual(['a1', 'b2'])
  })

  test('visits jobs of a time, whoever’s they are, and says which visits are done', async () => {
    const testQueue = await limited('a1', 'c3', 'd3', 'e4')
    const some = await claim(testQueue, visits('b2', 'b3', 'b4'), behind('b9'), 1)
    expect(idsOf(some)).toEqual(['c3'])
    expect(some.waits?.visited).toBe(1)
    const others = await claim(testQueue, visits('b3', 'b4'), behind('b9'))
    expect(idsOf(others)).toEqual(['d3', 'e4'])
    expect(others.waits?.visited).toBe(2)
  })

  test('reads on behind its cursor up to a time, and tells that all until then has been read', async () => {
    const testQueue = await limited('a1', 'a2', 'a3', 'b4', 'a9')
    const { waits, ...taken } = await claim(testQueue, { ...known(), upto: micros('b6') }, behind('a1'))
    expect(idsOf(taken)).toEqual(['a2', 'a3', 'b4'])
    expect(waits).toMatchObject({ to: micros('b6') + 1, toId: '' })
    expect(taken.head).toBeNull()
  })

  test('is answered nothing about them where the queue has no limits', async () => {
    const testQueue = await env.queue()
    await testQueue.push(jobOf('a1'), jobOf('a2'))
    const taken = await claim(testQueue, known('a1'), behind('a1'))
    expect(idsOf(taken)).toEqual(['a2'])
    expect(taken.waits).toBeUndefined()
  })
})

describe('what a look sifts', () => {
  async function sifted(testQueue: TestQueue, held: object) {
    const rows = await env.query<{ id: string }>(
      `SELECT id FROM lockstep.sift($1, ARRAY[$2::integer], '{0}', '{0}', '{NULL}', '{""}', ARRAY[$3::bigint], '{""}', ARRAY[$4], 100) WHERE is_news`,
      [await env.process(), testQueue.queueId, micros('z9'), JSON.stringify(held)],
    )
    return rows.map(({ id }) => id)
  }

  test('are jobs of others, and those of a tenant that are not known, but what is found behind those anyway', async () => {
    const testQueue = await limited('a1', 'a2', 'b3', 'a4', 'a5', 'a7')
    await testQueue.push({ id: 'nobody', lane: 0, performIn: PAST + 6 })
    const place = (id: string) => [micros(id), '']
    expect(await sifted(testQueue, { a: place('a2'), '': { a2: 1, a5: 1 } })).toEqual([
      'a1',
      'b3',
      'a4',
      'nobody',
      'a7',
    ])
    expect(await sifted(testQueue, { a: [...place('a2'), ...place('a5')], '': { a2: 1 } })).toEqual([
      'a1',
      'b3',
      'a4',
      'nobody',
    ])
  })

  test('are jobs before the first of a tenant, for a worker of the release before', async () => {
    const testQueue = await limited('a1', 'a2', 'b3', 'a4')
    expect(await sifted(testQueue, { a: [micros('a2') - 1, ''] })).toEqual(['a1', 'b3'])
  })
})

test('a claim that is told nothing is answered as the release before expects it', async () => {
  const testQueue = await limited('a1', 'a2', 'a3')
  const { waits } = await claim(testQueue, undefined)
  expect(waits).toEqual({
    full: false,
    limits: [{ tenant: 'a', until: null, from: micros('a3'), after: micros('a2'), afterId: 'a2' }],
    passed: null,
    to: micros('a3'),
    toId: 'a3',
  })
})
