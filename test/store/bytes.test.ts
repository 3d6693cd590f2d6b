import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import type { Claim } from '../../src/store/claim.ts'
import { exchange, MOST_BYTES } from '../../src/store/exchange.ts'
import { loadPayloads } from '../../src/store/load.ts'
import { type Board, openStage, outcomes, type Player, type Stage, shown } from '../support/rounds.ts'

const PAST = 1_536_323_288_000
const KB = 1_024
/** Stored in a hundredth of its size. */
const dense = (bytes: number, first = 'x') => `${first}${'x'.repeat(bytes - 3)}`

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

/** Payloads of four bytes as JSON text each. */
const pushes = (...names: string[]) => names.map((payload, score) => ({ id: 'a', payload, score }))

describe('R9 maxBytes', () => {
  async function start(maxBytes: number, options = {}): Promise<[Board, Player]> {
    const board = await stage.queue({ maxBytes, ...options })
    return [board, await board.player()]
  }

  test('takes the lowest scores that fit; what is left follows at once', async () => {
    const [board, player] = await start(8)
    await board.push(...pushes('aa', 'bb', 'cc', 'dd', 'ee').map((job) => ({ ...job, performIn: PAST })))
    const first = await player.take()
    expect(shown([first])).toEqual(['a: aa[0] bb[1]'])
    expect(first.cut).toMatchObject({ score: 1 })
    expect(outcomes(await player.complete(first))).toEqual(['a again'])
    expect((await board.job('a')).performIn).toBeGreaterThan(PAST + 1_000)

    const second = await player.take()
    expect(shown([second])).toEqual(['a: cc[2] dd[3]'])
    await player.complete(second)
    const third = await player.take()
    expect(shown([third])).toEqual(['a: ee[4]'])
    expect(third.cut).toBeUndefined()
    expect(await player.complete(third)).toEqual([])
    expect(await board.countPayloads()).toBe(0)
  })

  test('takes one at least, and counts the bytes of the text, not the letters or what is stored', async () => {
    const [board, player] = await start(6)
    await board.push(...pushes('ä', 'öö', 'üü', dense(9 * KB), 'z'))
    const rounds: string[][] = []
    while ((await board.countJobs()) > 0) {
      const round = await player.take()
      rounds.push(round.payloads.map((payload) => String(payload).slice(0, 2)))
      await player.complete(round)
    }
    expect(rounds).toEqual([['ä'], ['öö'], ['üü'], ['xx'], ['z']])
  })

  test('the first limit that is reached counts, of bytes and payloads', async () => {
    const [board, player] = await start(12, { maxPayloads: 2 })
    await board.push(...pushes('aa', 'bb', '123456789', 'cc', 'dd', 'ee'))
    const rounds: string[] = []
    while ((await board.countJobs()) > 0) {
      const round = await player.take()
      rounds.push(round.payloads.join(' '))
      await player.complete(round)
    }
    expect(rounds).toEqual(['aa bb', '123456789', 'cc dd', 'ee'])
  })

  test('P5 R2: equal ones of several rounds go together, and what is pushed meanwhile is spared', async () => {
    const [board, player] = await start(8)
    await board.push(...pushes('aa', 'bb', 'cc'))
    await player.fail([await player.take()])
    await board.push({ id: 'a', payload: 'aa', score: 9 }, { id: 'a', payload: 'cc', score: -1 })
    const round = await player.take()
    expect(shown([round])).toEqual(['a: cc[-1] aa[0]'])
    await board.push({ id: 'a', payload: 'aa', score: 5 })
    await player.complete(round)
    expect(await board.set('a')).toEqual(['bb[1]', 'aa[5]'])
  })

  test('R7: the lowest of the failed round dies, and its rest waits with what it left behind', async () => {
    const [board, player] = await start(8, { maxRetryCount: 0 })
    await board.push(...pushes('aa', 'bb', 'cc'))
    const round = await player.take()
    await board.push({ id: 'a', payload: 'zz', score: -5 })
    await player.fail([round], null)
    expect(await board.dead('a')).toMatchObject([{ payload: 'aa' }])
    expect(await board.set('a')).toEqual(['zz[-5]', 'bb[1]', 'cc[2]'])
  })

  test('R10: a crash loses and repeats nothing of the rest', async () => {
    const [board, dying] = await start(8)
    const heir = await board.player()
    await board.push(...pushes('aa', 'bb', 'cc'))
    await dying.take()
    await stage.expire(dying.processId)
    const rescued = await heir.take()
    expect(rescued).toMatchObject({ rescued: true, crashes: 1 })
    expect(shown([rescued])).toEqual(['a: aa[0] bb[1]'])
    await heir.complete(rescued)
    expect(await board.set('a')).toEqual(['cc[2]'])
  })
})

describe('the answer to a claim', () => {
  const handed = ({ rounds }: Claim) => rounds.filter(({ toLoad }) => !toLoad)

  test('brings as much as it may; of the rest the payloads are loaded', async () => {
    const board = await stage.queue({ batchSize: 40 })
    const player = await board.player()
    const size = 300 * KB
    const ids = Array.from({ length: 40 }, (_, index) => `id-${String(index).padStart(2, '0')}`)
    await board.push(...ids.map((id, index) => ({ id, payload: dense(size, id), performIn: PAST + index })))
    const claim = await player.claim()
    expect(claim.rounds.map(({ id }) => id)).toEqual(ids)
    expect(handed(claim)).toHaveLength(Math.floor(MOST_BYTES / size))
    expect(handed(claim)).toEqual(claim.rounds.slice(0, handed(claim).length))
    for (const id of ids) expect((await board.job(id)).claimed_by).toBe(player.processId)
    const last = claim.rounds.at(-1)!
    expect(last).toMatchObject({ payloads: [], scores: [], toLoad: true })
    expect(await player.load(last)).toMatchObject({
      id: 'id-39',
      fence: last.fence,
      payloads: [dense(size, 'id-39')],
      toLoad: false,
    })
    expect(await player.complete(...claim.rounds)).toEqual([])
    expect(await board.countPayloads()).toBe(0)
  })

  test('is one for all lanes that are asked for in a call', async () => {
    const boards = [await stage.queue(), await stage.queue({ maxPayloads: 9 }), await stage.queue()]
    const player = await boards[0]!.player()
    for (const board of boards) await board.push({ id: 'a', payload: dense(MOST_BYTES / 2) })
    const wishes = boards.map(({ queueId, queue: { maxPayloads, maxBytes } }) => {
      const key = { queueId, shard: 0, lane: 0 }
      return { key, cursor: { after: null, afterId: '' }, count: 1, maxPayloads, maxBytes }
    })
    const { claims } = await exchange(stage.database, player.processId, [], wishes)
    expect(claims.map(({ rounds }) => rounds.map(({ toLoad }) => toLoad))).toEqual([[false], [true], [false]])
  })

  test('never brings a round that is longer than all of it, whose claim is committed all the same', async () => {
    const board = await stage.queue({ batchSize: 3 })
    const player = await board.player()
    await board.push(
      { id: 'small', payload: 1, performIn: PAST },
      { id: 'huge', payload: dense(MOST_BYTES + 1), performIn: PAST + 1 },
      { id: 'later', payload: 1, performIn: PAST + 2 },
    )
    const { rounds } = await player.claim()
    expect(rounds.map(({ id, toLoad }) => `${id} ${toLoad}`)).toEqual([
      'small false',
      'huge true',
      'later true',
    ])
    expect(await board.job('huge')).toMatchObject({ claimed_by: player.processId })
  })

  test('does not put together from where it is stored what it won’t bring', async () => {
    const board = await stage.queue({ batchSize: 2 })
    const player = await board.player()
    const text = () => Array.from({ length: 10_000 }, () => Math.random()).join(' ')
    const many = Array.from({ length: 120 }, (_, score) => ({ id: 'huge', payload: text(), score }))
    for (let from = 0; from < many.length; from += 30) await board.push(...many.slice(from, from + 30))
    const chunksRead = async (work: (on: Player) => Promise<unknown>) => {
      const session = await stage.transaction()
      await work(player.on(session))
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
    // A quarter of the bytes, read for their size and to be sent.
    expect(all).toBeGreaterThan(5_000)
    expect(ofClaim).toBeLessThan(all * 0.6)
    const { rounds } = await player.claim()
    expect(rounds).toEqual([])
  })
})

describe('R9 payloads of a few bytes', () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ id: 'a', payload: index, score: index }))

  test('are brought by a claim no more than memory has room for their rows', async () => {
    const board = await stage.queue()
    const player = await board.player()
    const most = (4 * 1_024 * KB) / 64
    await board.push(...many(most), { id: 'b' })
    const { rounds } = await player.claim({ batchSize: 2 })
    expect(rounds.map(({ id, toLoad, payloads }) => [id, toLoad, payloads.length])).toEqual([
      ['a', false, most],
      ['b', true, 0],
    ])
    await player.release(...rounds)
    await board.push(...many(1).map((job) => ({ ...job, payload: 'one more' })))
    const { rounds: again } = await player.claim({ batchSize: 1 })
    expect(again).toMatchObject([{ id: 'a', toLoad: true }])
    const loaded = (await player.load(again[0]!))!
    expect(loaded.payloads).toHaveLength(most)
    expect(loaded.cut).toBeDefined()
  }, 60_000)

  test('are a thousand a round at least, where maxBytes is small', async () => {
    const board = await stage.queue({ maxBytes: 6_400 })
    const player = await board.player()
    await board.push(...many(1_001))
    const { rounds } = await player.claim()
    const loaded = (await player.load(rounds[0]!))!
    expect(loaded.payloads).toHaveLength(1_000)
    expect(loaded.cut).toBeDefined()
  })
})

describe('P6 a load', () => {
  test('brings nothing where the claim is lost', async () => {
    const board = await stage.queue({ maxBytes: 1 })
    const [old, next] = [await board.player(), await board.player()]
    await board.push({ id: 'a', payload: 'aa' })
    const { rounds } = await old.claim()
    expect(await old.load(rounds[0]!)).toMatchObject({ payloads: ['aa'] })
    await stage.expire(old.processId)
    const { rounds: rescued } = await next.claim()
    expect(await old.load(rounds[0]!)).toBeUndefined()
    expect(await next.load(rescued[0]!)).toMatchObject({ payloads: ['aa'] })
    // With an old fence neither.
    await next.release(rescued[0]!)
    await next.take()
    expect(await next.load(rescued[0]!)).toBeUndefined()
  })

  test('may take longer than other calls, by as much as its bytes need', async () => {
    const board = await stage.queue({ maxBytes: 1 })
    const player = await board.player()
    await board.push({ id: 'a', payload: dense(3 * 1_024 * KB) })
    const { rounds } = await player.claim()
    const hasty = new Database(stage.database.pool, stage.database.schema, 1)
    await expect(hasty.query('SELECT pg_sleep(1)')).rejects.toThrow('timeout')
    const loaded = await loadPayloads(hasty, player.processId, board.queueId, rounds[0]!, board.queue)
    expect(loaded!.size).toBe(3 * 1_024 * KB)
  })

  test('P7: waits for no producer, and takes nothing that is pushed meanwhile', async () => {
    const board = await stage.queue({ maxBytes: 8 })
    const player = await board.player()
    await board.push(...pushes('aa', 'bb', 'cc'))
    const { rounds } = await player.claim()
    const tx = await stage.transaction()
    await board.pushIn(tx, { id: 'a', payload: 'dd', score: -1 })
    expect(shown([(await player.load(rounds[0]!))!])).toEqual(['a: aa[0] bb[1]'])
    await tx.query('COMMIT')
    expect(shown([(await player.load(rounds[0]!))!])).toEqual(['a: aa[0] bb[1]'])
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
    const other = await openStage()
    try {
      await other.query(
        `ALTER DATABASE ${new URL(other.connectionString).pathname.slice(1)} SET extra_float_digits = ${digits}`,
      )
      for (const limits of [{ maxPayloads: 2 }, { maxBytes: 2 }, {}]) {
        const board = await other.queue(limits)
        await board.push(...SCORES.map((score, payload) => ({ id: 'a', payload, score })))
        const player = (await board.player()).on(await other.session())
        const [{ shown: asked }] = (await player.database.query(
          `SELECT current_setting('extra_float_digits') AS shown`,
        )) as [{ shown: string }]
        expect(asked).toBe(String(digits))
        const seen: number[] = []
        let rounds = 0
        for (; (await board.countJobs()) > 0; rounds += 1) {
          const round = await player.take()
          seen.push(...round.scores)
          await player.complete(round)
        }
        expect(seen).toEqual(SCORES.toSorted((a, b) => a - b))
        expect(rounds).toBe('maxPayloads' in limits ? 4 : 'maxBytes' in limits ? 4 : 1)
      }
    } finally {
      await other.close()
    }
  })
})
