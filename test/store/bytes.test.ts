import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import type { Claim } from '../../src/store/claim.ts'
import { exchange, MOST_BYTES } from '../../src/store/exchange.ts'
import { loadPayloads } from '../../src/store/load.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  type StoreEnvironment,
  shown,
  type TestQueue,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const KB = 1_024
/** Takes a hundredth of its size where it is stored. */
const dense = (bytes: number, first = 'x') => `${first}${'x'.repeat(bytes - 3)}`

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** Payloads with four bytes of JSON text each. */
const pushes = (...names: string[]) => names.map((payload, score) => ({ id: 'a', payload, score }))

describe('R9 maxBytes', () => {
  async function start(maxBytes: number, options = {}): Promise<[TestQueue, Claimer]> {
    const testQueue = await env.queue({ maxBytes, ...options })
    return [testQueue, await testQueue.claimer()]
  }

  test('takes the lowest scores that fit; what is left follows at once', async () => {
    const [testQueue, claimer] = await start(8)
    await testQueue.push(...pushes('aa', 'bb', 'cc', 'dd', 'ee').map((job) => ({ ...job, performIn: PAST })))
    const first = await claimer.take()
    expect(shown([first])).toEqual(['a: aa[0] bb[1]'])
    expect(first.cut).toMatchObject({ score: 1 })
    expect(outcomes(await claimer.complete(first))).toEqual(['a again'])
    expect((await testQueue.job('a')).performIn).toBeGreaterThan(PAST + 1_000)

    const second = await claimer.take()
    expect(shown([second])).toEqual(['a: cc[2] dd[3]'])
    await claimer.complete(second)
    const third = await claimer.take()
    expect(shown([third])).toEqual(['a: ee[4]'])
    expect(third.cut).toBeUndefined()
    expect(await claimer.complete(third)).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('takes one at least, and counts the bytes of the text, not the letters or what is stored', async () => {
    const [testQueue, claimer] = await start(6)
    await testQueue.push(...pushes('ä', 'öö', 'üü', dense(9 * KB), 'z'))
    const rounds: string[][] = []
    while ((await testQueue.countJobs()) > 0) {
      const round = await claimer.take()
      rounds.push(round.payloads.map((payload) => String(payload).slice(0, 2)))
      await claimer.complete(round)
    }
    expect(rounds).toEqual([['ä'], ['öö'], ['üü'], ['xx'], ['z']])
  })

  test('the first limit that is reached counts, of bytes and payloads', async () => {
    const [testQueue, claimer] = await start(12, { maxPayloads: 2 })
    await testQueue.push(...pushes('aa', 'bb', '123456789', 'cc', 'dd', 'ee'))
    const rounds: string[] = []
    while ((await testQueue.countJobs()) > 0) {
      const round = await claimer.take()
      rounds.push(round.payloads.join(' '))
      await claimer.complete(round)
    }
    expect(rounds).toEqual(['aa bb', '123456789', 'cc dd', 'ee'])
  })

  test('P5 R2: equal ones of several rounds go together, and what is pushed meanwhile is spared', async () => {
    const [testQueue, claimer] = await start(8)
    await testQueue.push(...pushes('aa', 'bb', 'cc'))
    await claimer.fail([await claimer.take()])
    await testQueue.push({ id: 'a', payload: 'aa', score: 9 }, { id: 'a', payload: 'cc', score: -1 })
    const round = await claimer.take()
    expect(shown([round])).toEqual(['a: cc[-1] aa[0]'])
    await testQueue.push({ id: 'a', payload: 'aa', score: 5 })
    await claimer.complete(round)
    expect(await testQueue.set('a')).toEqual(['bb[1]', 'aa[5]'])
  })

  test('R7: the lowest of the failed round dies, and its rest waits with what it left behind', async () => {
    const [testQueue, claimer] = await start(8, { maxRetryCount: 0 })
    await testQueue.push(...pushes('aa', 'bb', 'cc'))
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'zz', score: -5 })
    await claimer.fail([round], null)
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'aa' }])
    expect(await testQueue.set('a')).toEqual(['zz[-5]', 'bb[1]', 'cc[2]'])
  })

  test('R10: a crash loses and repeats nothing of the rest', async () => {
    const [testQueue, dying] = await start(8)
    const heir = await testQueue.claimer()
    await testQueue.push(...pushes('aa', 'bb', 'cc'))
    await dying.take()
    await env.expire(dying.processId)
    const rescued = await heir.take()
    expect(rescued).toMatchObject({ rescued: true, crashes: 1 })
    expect(shown([rescued])).toEqual(['a: aa[0] bb[1]'])
    await heir.complete(rescued)
    expect(await testQueue.set('a')).toEqual(['cc[2]'])
  })
})

describe('the answer to a claim', () => {
  const handed = ({ rounds }: Claim) => rounds.filter(({ toLoad }) => !toLoad)

  test('brings as much as it may; of the rest the payloads are loaded', async () => {
    const testQueue = await env.queue({ batchSize: 40 })
    const claimer = await testQueue.claimer()
    const size = 300 * KB
    const ids = Array.from({ length: 40 }, (_, index) => `id-${String(index).padStart(2, '0')}`)
    await testQueue.push(
      ...ids.map((id, index) => ({ id, payload: dense(size, id), performIn: PAST + index })),
    )
    const claim = await claimer.claim()
    expect(claim.rounds.map(({ id }) => id)).toEqual(ids)
    expect(handed(claim)).toHaveLength(Math.floor(MOST_BYTES / size))
    expect(handed(claim)).toEqual(claim.rounds.slice(0, handed(claim).length))
    for (const id of ids) expect((await testQueue.job(id)).claimed_by).toBe(claimer.processId)
    const last = claim.rounds.at(-1)!
    expect(last).toMatchObject({ payloads: [], scores: [], toLoad: true })
    expect(await claimer.load(last)).toMatchObject({
      id: 'id-39',
      fence: last.fence,
      payloads: [dense(size, 'id-39')],
      toLoad: false,
    })
    expect(await claimer.complete(...claim.rounds)).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('is one for all lanes that are asked for in a call', async () => {
    const testQueues = [await env.queue(), await env.queue({ maxPayloads: 9 }), await env.queue()]
    const claimer = await testQueues[0]!.claimer()
    for (const testQueue of testQueues) await testQueue.push({ id: 'a', payload: dense(MOST_BYTES / 2) })
    const wishes = testQueues.map(({ queueId, queue: { maxPayloads, maxBytes } }) => {
      const key = { queueId, shard: 0, lane: 0 }
      return { key, cursor: { after: null, afterId: '' }, count: 1, maxPayloads, maxBytes }
    })
    const { claims } = await exchange(env.database, claimer.processId, [], wishes)
    expect(claims.map(({ rounds }) => rounds.map(({ toLoad }) => toLoad))).toEqual([[false], [true], [false]])
  })

  test('does not bring one that is short where it is stored, but whose text is longer than maxBytes', async () => {
    const testQueue = await env.queue({ batchSize: 3, maxBytes: 5 * KB })
    const claimer = await testQueue.claimer()
    for (const [id, payload] of Object.entries({ a: '1', b: '1e9999', c: '1' }))
      await env.database.query(
        `SELECT ${env.database.prefix}.enqueue($1, $2, $3::jsonb, NULL, to_timestamp(1))`,
        [testQueue.queue.name, id, payload],
      )
    const { rounds } = await claimer.claim()
    expect(rounds.map(({ id, toLoad }) => `${id} ${toLoad}`)).toEqual(['a false', 'b true', 'c false'])
    await claimer.complete(...rounds)
  })

  test('never brings a round that is longer than all of it, whose claim is committed all the same', async () => {
    const testQueue = await env.queue({ batchSize: 3 })
    const claimer = await testQueue.claimer()
    await testQueue.push(
      { id: 'small', payload: 1, performIn: PAST },
      { id: 'huge', payload: dense(MOST_BYTES + 1), performIn: PAST + 1 },
      { id: 'later', payload: 1, performIn: PAST + 2 },
    )
    const { rounds } = await claimer.claim()
    expect(rounds.map(({ id, toLoad }) => `${id} ${toLoad}`)).toEqual([
      'small false',
      'huge true',
      'later true',
    ])
    expect(await testQueue.job('huge')).toMatchObject({ claimed_by: claimer.processId })
  })

  test('does not put together from where it is stored what it won’t bring', { tags: 'slow' }, async () => {
    const testQueue = await env.queue({ batchSize: 2 })
    const claimer = await testQueue.claimer()
    const text = () => Array.from({ length: 10_000 }, () => Math.random()).join(' ')
    const many = Array.from({ length: 120 }, (_, score) => ({ id: 'huge', payload: text(), score }))
    for (let from = 0; from < many.length; from += 30) await testQueue.push(...many.slice(from, from + 30))
    const chunksRead = async (work: (on: Claimer) => Promise<unknown>) => {
      const session = await env.transaction()
      await work(claimer.on(session))
      const { rows } = await session.query(
        `SELECT coalesce(sum(s.idx_tup_fetch), 0)::int AS read
         FROM pg_class c JOIN pg_stat_xact_all_tables s ON s.relid = c.reltoastrelid
         LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
         WHERE 'lockstep.payloads'::regclass IN (c.oid, i.inhparent)`,
      )
      await session.query('COMMIT')
      return rows[0].read as number
    }
    const all = await chunksRead(async ({ database }) =>
      database.query('SELECT sum(length(payload::text)) FROM lockstep.payloads'),
    )
    const ofClaim = await chunksRead((on) => on.claim())
    // The claim takes a quarter of the bytes. It reads them twice, to measure and to send them.
    expect(all).toBeGreaterThan(5_000)
    expect(ofClaim).toBeLessThan(all * 0.6)
    const { rounds } = await claimer.claim()
    expect(rounds).toEqual([])
  })
})

describe('R9 payloads of a few bytes', () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ id: 'a', payload: index, score: index }))

  test('are brought by a claim no more than memory has room for their rows', {
    tags: 'slow',
    timeout: 60_000,
  }, async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const most = (4 * 1_024 * KB) / 64
    await testQueue.push(...many(most), { id: 'b' })
    const { rounds } = await claimer.claim({ batchSize: 2 })
    expect(rounds.map(({ id, toLoad, payloads }) => [id, toLoad, payloads.length])).toEqual([
      ['a', false, most],
      ['b', true, 0],
    ])
    await claimer.release(...rounds)
    await testQueue.push(...many(1).map((job) => ({ ...job, payload: 'one more' })))
    const { rounds: again } = await claimer.claim({ batchSize: 1 })
    expect(again).toMatchObject([{ id: 'a', toLoad: true }])
    const loaded = (await claimer.load(again[0]!))!
    expect(loaded.payloads).toHaveLength(most)
    expect(loaded.cut).toBeDefined()
  })

  test('are a thousand a round at least, where maxBytes is small', async () => {
    const testQueue = await env.queue({ maxBytes: 6_400 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...many(1_001))
    const { rounds } = await claimer.claim()
    const loaded = (await claimer.load(rounds[0]!))!
    expect(loaded.payloads).toHaveLength(1_000)
    expect(loaded.cut).toBeDefined()
  })
})

describe('P6 a load', () => {
  test('brings nothing where the claim is lost', async () => {
    const testQueue = await env.queue({ maxBytes: 1 })
    const [old, next] = [await testQueue.claimer(), await testQueue.claimer()]
    const payload = dense(3 * KB)
    await testQueue.push({ id: 'a', payload })
    const { rounds } = await old.claim()
    expect(await old.load(rounds[0]!)).toMatchObject({ payloads: [payload] })
    await env.expire(old.processId)
    const { rounds: rescued } = await next.claim()
    expect(await old.load(rounds[0]!)).toBeUndefined()
    expect(await next.load(rescued[0]!)).toMatchObject({ payloads: [payload] })
    // Nor does a load with an old fence.
    await next.release(rescued[0]!)
    await next.take()
    expect(await next.load(rescued[0]!)).toBeUndefined()
  })

  test('may take longer than other calls, by as much as its bytes need', async () => {
    const testQueue = await env.queue({ maxBytes: 1 })
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a', payload: dense(3 * 1_024 * KB) })
    const { rounds } = await claimer.claim()
    const hasty = new Database(env.database.pool, env.database.schema, 1)
    await expect(hasty.query('SELECT pg_sleep(1)')).rejects.toThrow('timeout')
    const loaded = await loadPayloads(
      hasty,
      claimer.processId,
      testQueue.queueId,
      rounds[0]!,
      testQueue.queue,
    )
    expect(loaded!.size).toBe(3 * 1_024 * KB)
  })

  test('P7: waits for no producer, and takes nothing that is pushed meanwhile', async () => {
    const testQueue = await env.queue({ maxBytes: 8 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...pushes('aa', 'bb', 'cc'))
    const { rounds } = await claimer.claim()
    const tx = await env.transaction()
    await testQueue.pushIn(tx, { id: 'a', payload: 'dd', score: -1 })
    expect(shown([(await claimer.load(rounds[0]!))!])).toEqual(['a: aa[0] bb[1]'])
    await tx.query('COMMIT')
    expect(shown([(await claimer.load(rounds[0]!))!])).toEqual(['a: aa[0] bb[1]'])
  })
})

describe('scores', () => {
  const SCORES = [
    0.1,
    0.1 + Number.EPSILON / 8,
    1 / 3,
    1e15 + 0.3,
    1_536_323_288_000.123,
    5e-324,
    1.7976931348623157e308,
  ]

  test.each([0, -15])('come and go with all their digits where extra_float_digits is %i', async (digits) => {
    const other = await openStore()
    try {
      await other.query(
        `ALTER DATABASE ${new URL(other.connectionString).pathname.slice(1)} SET extra_float_digits = ${digits}`,
      )
      for (const limits of [{ maxPayloads: 2 }, { maxBytes: 2 }, {}]) {
        const testQueue = await other.queue(limits)
        await testQueue.push(...SCORES.map((score, payload) => ({ id: 'a', payload, score })))
        const claimer = (await testQueue.claimer()).on(await other.session())
        const [{ shown: asked }] = (await claimer.database.query(
          `SELECT current_setting('extra_float_digits') AS shown`,
        )) as [{ shown: string }]
        expect(asked).toBe(String(digits))
        const seen: number[] = []
        let rounds = 0
        for (; (await testQueue.countJobs()) > 0; rounds += 1) {
          const round = await claimer.take()
          seen.push(...round.scores)
          await claimer.complete(round)
        }
        expect(seen).toEqual(SCORES.toSorted((a, b) => a - b))
        expect(rounds).toBe('maxPayloads' in limits ? 4 : 'maxBytes' in limits ? 4 : 1)
      }
    } finally {
      await other.close()
    }
  })
})
