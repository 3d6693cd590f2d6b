import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStore, outcomes, type StoreEnvironment, shown } from '../support/store-environment.ts'

const PAST = 1_536_323_288_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

describe('R9 a batch', () => {
  test('takes at most batchSize ids, in perform_in order, the rest next time', async () => {
    const testQueue = await env.queue({ batchSize: 3 })
    const claimer = await testQueue.claimer()
    for (const [id, offset] of Object.entries({ a: 5, b: 3, c: 1, d: 4, e: 2 }))
      await testQueue.push({ id, performIn: PAST + offset })

    const first = await claimer.claim()
    expect(first.rounds.map(({ id }) => id)).toEqual(['c', 'e', 'b'])
    expect(first.rounds.map(({ performIn }) => performIn)).toEqual([1, 2, 3].map((n) => (PAST + n) * 1000))
    expect(first.head).toBe((PAST + 4) * 1000)

    const second = await claimer.claim()
    expect(second.rounds.map(({ id }) => id)).toEqual(['d', 'a'])
    expect(second.head).toBeNull()
  })

  test('orders ids due at the same instant bytewise', async () => {
    const ids = ['a', 'B', 'é', 'z', 'Z', '10', '9', ' ', '\u{1f600}', '\uffee', 'e\u0301', 'ä', '😀a', 'aa']
    const bytewise = ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    const testQueue = await env.queue({ batchSize: 5 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...ids.map((id) => ({ id, performIn: PAST })))
    const taken: string[] = []
    for (let n = 0; n < 3; n += 1) taken.push(...(await claimer.claim()).rounds.map(({ id }) => id))
    expect(taken).toEqual(bytewise)
  })

  test('keeps to its lane and shard', async () => {
    const testQueue = await env.queue({ shards: 3, batchSize: 100 })
    const claimer = await testQueue.claimer()
    const ids = Array.from({ length: 30 }, (_, i) => `id ${i}`)
    await testQueue.push(...ids.map((id, i) => ({ id, lane: i % 2 })))
    const taken: string[] = []
    for (const shard of [0, 1, 2]) {
      for (const lane of [0, 1]) {
        for (const { id } of (await claimer.claim({ shard, lane })).rounds) {
          expect(await testQueue.job(id)).toMatchObject({ shard, lane })
          taken.push(id)
        }
      }
    }
    expect(taken.sort()).toEqual(ids.sort())
  })

  test('takes nothing that is not due, and says when the next one is', async () => {
    const testQueue = await env.queue({ batchSize: 10 })
    const claimer = await testQueue.claimer()
    const soon = Date.now() + 3_600_000
    await testQueue.push({ id: 'later', performIn: soon + 1 }, { id: 'soon', performIn: soon }, { id: 'now' })
    const { rounds, head } = await claimer.claim()
    expect(rounds.map(({ id }) => id)).toEqual(['now'])
    expect(head).toBe(soon * 1000)
  })

  test('a job in work is not the next one', async () => {
    const testQueue = await env.queue({ batchSize: 1 })
    const [claimer, other] = [await testQueue.claimer(), await testQueue.claimer()]
    await testQueue.push(...['a', 'b', 'c'].map((id, i) => ({ id, performIn: PAST + i })))
    const { rounds } = await other.claim({ cursor: { after: PAST * 1000, afterId: 'a' } })
    expect(rounds.map(({ id }) => id)).toEqual(['b'])
    expect((await claimer.claim()).head).toBe((PAST + 2) * 1000)
  })

  test('goes on from the cursor, to the microsecond and the id', async () => {
    const testQueue = await env.queue({ batchSize: 2 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...['a', 'b', 'c', 'd'].map((id) => ({ id, performIn: PAST })))
    await env.query(
      `UPDATE lockstep.jobs SET perform_in = perform_in + interval '1 microsecond'
       WHERE queue_id = $1 AND id = 'd'`,
      [testQueue.queueId],
    )
    const { rounds, head } = await claimer.claim({ cursor: { after: PAST * 1000, afterId: 'b' } })
    expect(rounds.map(({ id }) => id)).toEqual(['c', 'd'])
    expect(rounds[1]!.performIn).toBe(PAST * 1000 + 1)
    expect(head).toBeNull()
    await claimer.release(...rounds)
    const after = { after: PAST * 1000, afterId: 'c' }
    expect((await claimer.claim({ cursor: after })).rounds.map(({ id }) => id)).toEqual(['d'])
  })

  test('a paused queue gives nothing until it is resumed', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a' })
    const pause = (at: string) =>
      env.query(`UPDATE lockstep.queues SET paused_at = ${at} WHERE queue_id = $1`, [testQueue.queueId])
    await pause('now()')
    expect(await claimer.claim()).toEqual({ rounds: [], head: null, passed: false })
    await pause('NULL')
    await claimer.take()
  })
})

describe('R9 maxPayloads', () => {
  const payloads = (...letters: string[]) =>
    letters.map((payload) => ({ id: 'a', payload, score: payload.charCodeAt(0) }))

  test('takes the lowest scores first; what is left follows at once', async () => {
    const testQueue = await env.queue({ maxPayloads: 2 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...payloads('e', 'a', 'd', 'b', 'c').map((job) => ({ ...job, performIn: PAST })))
    const first = await claimer.take()
    expect(shown([first])).toEqual(['a: a[97] b[98]'])
    expect(outcomes(await claimer.complete(first))).toEqual(['a again'])
    expect(await testQueue.job('a')).toMatchObject({ retry_count: -1, claimed_by: null })
    expect((await testQueue.job('a')).performIn).toBeGreaterThan(PAST + 1_000)

    const second = await claimer.take()
    expect(shown([second])).toEqual(['a: c[99] d[100]'])
    await claimer.complete(second)
    const third = await claimer.take()
    expect(shown([third])).toEqual(['a: e[101]'])
    expect(third.cut).toBeUndefined()
    expect(await claimer.complete(third)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('a set of exactly that size is not cut', async () => {
    const testQueue = await env.queue({ maxPayloads: 2 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...payloads('a', 'b'))
    const round = await claimer.take()
    expect(round.cut).toBeUndefined()
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('cuts between equal scores, in push order', async () => {
    const testQueue = await env.queue({ maxPayloads: 2 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...['z', 'y', 'x'].map((payload) => ({ id: 'a', payload, score: 1 })))
    const first = await claimer.take()
    expect(shown([first])).toEqual(['a: z[1] y[1]'])
    await claimer.complete(first)
    expect(shown([await claimer.take()])).toEqual(['a: x[1]'])
  })

  test('folds equal payloads of several rounds, counts them once and deletes them together', async () => {
    const testQueue = await env.queue({ maxPayloads: 2 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...payloads('a', 'b', 'c'))
    const failed = await claimer.take()
    // The same payloads again, under the failed round's fence: `a` with a higher score than before, `c` with a lower
    // one.
    await testQueue.push({ id: 'a', payload: 'a', score: 120 }, { id: 'a', payload: 'c', score: 1 })
    await claimer.fail([failed])
    expect(await testQueue.countPayloads()).toBe(5)

    const round = await claimer.take()
    expect(shown([round])).toEqual(['a: c[1] a[97]'])
    await claimer.complete(round)
    expect(await testQueue.set('a')).toEqual(['b[98]'])
    expect(await testQueue.countPayloads()).toBe(1)
  })

  test('P5 spares an equal payload that is pushed while a cut round is in work', async () => {
    const testQueue = await env.queue({ maxPayloads: 1 })
    const claimer = await testQueue.claimer()
    await testQueue.push(...payloads('a', 'b'))
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'a', score: 0, performIn: 4_102_444_800_000 })
    await claimer.complete(round)
    expect(await testQueue.set('a')).toEqual(['a[0]', 'b[98]'])
    // At once, whatever time the push asked for: what was left is as old as the round.
    expect(shown([await claimer.take()])).toEqual(['a: a[0]'])
  })

  test('cuts each id of a batch by itself', async () => {
    const testQueue = await env.queue({ maxPayloads: 2, batchSize: 10 })
    const claimer = await testQueue.claimer()
    await testQueue.push(
      ...[1, 2, 3].map((n) => ({ id: 'cut', payload: n, score: n })),
      ...[1, 2].map((n) => ({ id: 'whole', payload: n, score: n })),
      ...[1, 2].map((n) => ({ id: 'pushed', payload: n, score: n })),
    )
    const { rounds } = await claimer.claim()
    await testQueue.push({ id: 'pushed', payload: 3, score: 3 })
    expect(outcomes(await claimer.complete(...rounds))).toEqual(['cut again', 'pushed again'])
    const next = await claimer.claim()
    expect(shown(next.rounds).sort()).toEqual(['cut: 3[3]', 'pushed: 3[3]'])
    expect(await claimer.complete(...next.rounds)).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('R10 a crash in the middle of a cut round loses and repeats nothing of its rest', async () => {
    const testQueue = await env.queue({ maxPayloads: 2 })
    const [dying, heir] = [await testQueue.claimer(), await testQueue.claimer()]
    await testQueue.push(...payloads('b', 'c', 'd'))
    expect(shown([await dying.take()])).toEqual(['a: b[98] c[99]'])
    await testQueue.push({ id: 'a', payload: 'a', score: 97 })
    await env.expire(dying.processId)

    const rescued = await heir.take()
    expect(rescued).toMatchObject({ rescued: true, crashes: 1, retryCount: -1 })
    expect(shown([rescued])).toEqual(['a: a[97] b[98]'])
    await heir.complete(rescued)
    expect(shown([await heir.take()])).toEqual(['a: c[99] d[100]'])
  })
})
