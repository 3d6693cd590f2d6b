import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FoundJob, type JobFilter, OptionError, type Page } from '../../src/index.ts'
import type { JobSort } from '../../src/store/jobs.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

/** Past, since only what is due is ever claimed. */
const BASE = Date.parse('2020-01-01T00:00:00Z')
const LATER = Date.parse('2040-01-01T00:00:00Z')

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  testQueue = await populate(env)
})
afterAll(() => env?.close())

/**
 * 60 jobs whose order by time, id and retry count differs, with ties down to the microsecond and beyond; in several lanes, and
 * some left by a dead process.
 */
async function populate(on: StoreEnvironment): Promise<TestQueue> {
  const made = await on.queue({ shards: 3 })
  await made.push(
    ...Array.from({ length: 60 }, (_, n) => ({
      id: `${['a', 'Z', 'é', '𝄞', '\uffee'][n % 5]}${(n * 37) % 60}`,
      payload: n,
    })),
  )
  await on.query(
    `UPDATE lockstep.jobs j SET retry_count = n.place % 4 - 1, lane = n.place % 3,
       claimed_by = CASE WHEN n.place % 5 = 0 AND n.place % 11 <> 0 THEN 999999 END,
       perform_in = timestamptz '2020-01-01 00:00:00Z' + (n.place % 7) * interval '1 microsecond'
         + (n.place % 3) * interval '1 millisecond' + (n.place % 11 = 0)::integer * interval '7979 years 999999 microseconds'
     FROM (SELECT id, row_number() OVER (ORDER BY sha256(convert_to(id, 'UTF8'))) AS place FROM lockstep.jobs WHERE queue_id = $1) n
     WHERE j.queue_id = $1 AND j.id = n.id`,
    [made.queueId],
  )
  return made
}

const COLUMNS = { id: 'id', performIn: 'perform_in, id', retryCount: 'retry_count, id' }

/** The result of one statement without pages, in ascending order. */
async function sorted(by: JobSort, where = 'true'): Promise<string[]> {
  const rows = await env.query<{ id: string }>(
    `SELECT id FROM lockstep.jobs WHERE queue_id = $1 AND ${where} ORDER BY ${COLUMNS[by]}`,
    [testQueue.queueId],
  )
  return rows.map(({ id }) => id)
}

/** Reads all pages; returns the ids and the sizes of the pages. */
async function turn(filter: JobFilter & Page<JobSort>, { queue } = testQueue) {
  const ids: string[] = []
  const sizes: number[] = []
  let after: string | undefined
  do {
    const { items, next } = await env.lockstep.find(queue, { ...filter, after })
    ids.push(...items.map(({ id }) => id))
    sizes.push(items.length)
    after = next
  } while (after !== undefined)
  return { ids, sizes }
}

async function idsOf(filter: JobFilter): Promise<string[]> {
  const { items } = await env.lockstep.find(testQueue.queue, { ...filter, by: 'id' })
  return items.map(({ id }) => id)
}

describe('R11 pages', () => {
  for (const by of ['id', 'performIn', 'retryCount'] as const) {
    test(`by ${by} are the full sort cut in pieces, in both directions, whatever their size`, async () => {
      const all = await sorted(by)
      for (const limit of [1, 7, 59, 60, 61]) {
        expect((await turn({ by, limit })).ids).toEqual(all)
        expect((await turn({ by, limit, direction: 'desc' })).ids).toEqual(all.toReversed())
      }
      expect((await turn({ by, limit: 25 })).sizes).toEqual([25, 25, 10])
      expect((await turn({ by, limit: 30 })).sizes).toEqual([30, 30])
    })
  }

  test('lead back where the direction is turned round', async () => {
    const { items, next } = await env.lockstep.find(testQueue.queue, { limit: 10 })
    const back = await env.lockstep.find(testQueue.queue, { after: next, direction: 'desc', limit: 100 })
    expect(back.items.map(({ id }) => id)).toEqual(
      items
        .slice(0, -1)
        .map(({ id }) => id)
        .reverse(),
    )
  })

  test.each(['performIn', 'retryCount', 'id'] as const)('by %s keep their filter', async (by) => {
    const [failed, early] = [{ from: 1 }, { to: new Date(BASE + 1) }]
    const inTime = `perform_in < '2020-01-01 00:00:00.002Z'` // a Date has no microseconds
    expect((await turn({ retryCount: failed, by, limit: 4 })).ids).toEqual(
      await sorted(by, 'retry_count >= 1'),
    )
    expect((await turn({ performIn: early, by, limit: 4 })).ids).toEqual(await sorted(by, inTime))
    expect((await turn({ performIn: early, retryCount: failed, by, limit: 4 })).ids).toEqual(
      await sorted(by, `retry_count >= 1 AND ${inTime}`),
    )
  })

  test.each(['performIn', 'retryCount', 'id'] as const)(
    'by %s have next rounds at their own place',
    async (by) => {
      const busy = await env.queue({ shards: 2 })
      await busy.push(...Array.from({ length: 20 }, (_, n) => ({ id: n, performIn: BASE - n })))
      await env.query(
        `UPDATE lockstep.jobs j SET retry_count = j.id::integer % 3, next_perform_in = perform_in + interval '7 ms',
         claimed_by = p.process_id FROM lockstep.processes p WHERE j.queue_id = $1 AND j.id::integer % 4 = 0`,
        [busy.queueId],
      )
      const entries = await env.query<{ id: string }>(
        `SELECT id FROM lockstep.waiting WHERE queue = $1 ORDER BY ${COLUMNS[by]}`,
        [busy.queue.name],
      )
      const pages = await turn({ by, limit: 3, state: 'waiting' }, busy)
      expect(pages.ids).toEqual(entries.map(({ id }) => id))
      expect(pages.ids).toHaveLength(20)
    },
  )

  test('are by performIn, ascending, a hundred at a time unless told otherwise', async () => {
    const many = await env.queue()
    await many.push(...Array.from({ length: 120 }, (_, n) => ({ id: n, performIn: BASE - n })))
    const { items, next } = await env.lockstep.find(many.queue.name)
    expect(items.map(({ id }) => id)).toEqual(Array.from({ length: 100 }, (_, n) => String(119 - n)))
    expect((await env.lockstep.find(many.queue, { after: next })).items).toHaveLength(20)
  })

  test.each([
    ['nonsense', 'performIn'],
    ['', 'performIn'],
    [cursor('id', 'a', 'waiting'), 'performIn'],
    [cursor('id', 'a'), 'id'],
    [cursor('id', 'a', 'dead'), 'id'],
    [cursor('performIn', '12', 'a', 'waiting', 'b'), 'performIn'],
    [cursor('performIn', 'soon', 'a', 'waiting'), 'performIn'],
    [cursor('performIn', '9'.repeat(19), 'a', 'waiting'), 'performIn'],
    [cursor('retryCount', '1.5', 'a', 'waiting'), 'retryCount'],
    [cursor('retryCount', '9999999999', 'a', 'waiting'), 'retryCount'],
    [cursor('id', 'a\u0000', 'waiting'), 'id'],
    [Buffer.from('{"by":"id"}').toString('base64url'), 'id'],
    [Buffer.from('["id",7]').toString('base64url'), 'id'],
  ] as const)('refuse the cursor %j for a page by %s', async (after, by) => {
    await expect(env.lockstep.find(testQueue.queue, { after, by })).rejects.toThrow(
      new OptionError(`after must be the \`next\` of an earlier page sorted by \`${by}\``),
    )
  })
})

function cursor(...parts: string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

describe('R11 filters', () => {
  test('ids are compared bytewise, both ends of a range belonging to it', async () => {
    const all = await sorted('id')
    expect(all).toEqual(all.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))))
    expect(await idsOf({ id: { from: all[10], to: all[20] } })).toEqual(all.slice(10, 21))
    expect(await idsOf({ id: { from: all[50] } })).toEqual(all.slice(50))
    expect(await idsOf({ id: { to: all[5] } })).toEqual(all.slice(0, 6))
    expect(await idsOf({ id: {} })).toEqual(all)
    expect(await idsOf({ id: { from: all[20], to: all[10] } })).toEqual([])
  })

  test('ids name jobs; an empty list names none', async () => {
    const [, second, third] = await sorted('id')
    expect(await idsOf({ ids: [third!, second!, second!, 'missing', '"{,}\\'] })).toEqual([second, third])
    expect(await idsOf({ ids: [] })).toEqual([])
  })

  test('a Date stands for its millisecond, so that what is shown can be found', async () => {
    const { items } = await env.lockstep.find(testQueue.queue)
    for (const { id, performIn } of [items[0]!, items[20]!, items.at(-1)!]) {
      expect(await idsOf({ performIn: { from: performIn, to: performIn } })).toContain(id)
    }
    const first = await idsOf({ performIn: { to: new Date(BASE) } })
    expect(first).toHaveLength(items.filter(({ performIn }) => performIn.getTime() === BASE).length)
    expect(await idsOf({ performIn: { to: new Date(BASE - 1) } })).toEqual([])
    expect(await idsOf({ performIn: { from: new Date(-1e15), to: new Date(8.64e15) } })).toHaveLength(60)
  })

  test('retry counts and all conditions together', async () => {
    expect(await idsOf({ retryCount: { from: 0, to: 1 } })).toEqual(
      await sorted('id', 'retry_count BETWEEN 0 AND 1'),
    )
    expect(
      await idsOf({ retryCount: { to: -1 }, id: { from: 'a' }, performIn: { to: new Date(BASE) } }),
    ).toEqual(
      await sorted('id', `retry_count = -1 AND id >= 'a' AND perform_in < '2020-01-01 00:00:00.001Z'`),
    )
  })

  test.each([
    [{ retrycount: {} }, 'find: unknown option `retrycount`, did you mean `retryCount`?'],
    [{ id: 'a' }, 'find: id must be a range { from, to }, not "a"'],
    [{ id: { form: 'a' } }, 'find: id: unknown option `form`, did you mean `from`?'],
    [{ id: { from: 7 } }, 'find: id.from must be well-formed text without \\u0000, not 7'],
    [{ ids: 'a' }, 'find: ids must be an array, not "a"'],
    [{ ids: ['\ud800'] }, 'find: ids[0] must be well-formed text without \\u0000, not "\ud800"'],
    [{ ids: ['a', 'b\u0000'] }, 'find: ids[1] must be well-formed text without \\u0000, not "b\u0000"'],
    [{ performIn: { to: new Date(Number.NaN) } }, 'find: performIn.to must be a valid Date, not an object'],
    [{ retryCount: { from: 0.5 } }, 'find: retryCount.from must be a whole number, not 0.5'],
    [{ state: 'dead' }, 'find: state must be waiting or working, not "dead"'],
    [{ by: 'score' }, 'find: by must be id or performIn or retryCount, not "score"'],
    [{ direction: 'up' }, 'find: direction must be asc or desc, not "up"'],
    [{ limit: 1_001 }, 'find: limit must be a whole number from 1 to 1000, not 1001'],
    [null, 'find takes a filter, {} for all, not null'],
  ])('%j is refused', async (filter, message) => {
    await expect(env.lockstep.find(testQueue.queue, filter as JobFilter)).rejects.toThrow(
      new OptionError(message),
    )
  })
})

describe('R11 a found job', () => {
  test('shows its numbers and its payloads by score, equal ones folded', async () => {
    const one = await env.queue({ shards: 5 })
    const performIn = new Date(BASE)
    await one.push(
      { id: 'a', payload: { n: 1 }, score: 2, performIn, lane: 3 },
      { id: 'a', payload: null, score: 1.5 },
      { id: 'a', payload: { n: 1 }, score: 9 },
    )
    const { shard } = await one.job('a')
    const { items, next } = await env.lockstep.find(one.queue)
    expect(next).toBeUndefined()
    expect(items).toEqual<FoundJob[]>([
      {
        id: 'a',
        shard,
        lane: 3,
        tenant: null,
        performIn,
        retryCount: -1,
        crashes: 0,
        error: null,
        state: 'waiting',
        claimedAt: null,
        leaseEndsAt: null,
        processId: null,
        fence: null,
        payloads: [
          { payload: null, score: 1.5 },
          { payload: { n: 1 }, score: 2 },
        ],
      },
    ])
  })

  test('is in work as long as its process lives, with the payloads of this round; then it waits', async () => {
    const one = await env.queue()
    await one.push(
      { id: 'a', payload: 'first', score: 1 },
      { id: 'b', payload: 'other', score: 1, performIn: LATER },
    )
    const claimer = await one.claimer()
    await claimer.take()
    await one.push({ id: 'a', payload: 'later', score: 0 })

    const working = await env.lockstep.find(one.queue, { state: 'working' })
    expect(working.items).toMatchObject([
      { id: 'a', state: 'working', processId: claimer.processId, payloads: [{ payload: 'first', score: 1 }] },
    ])
    expect(working.items[0]!.claimedAt!.getTime()).toBeGreaterThan(Date.now() - 60_000)
    const waiting = await env.lockstep.find(one.queue, { state: 'waiting' })
    expect(waiting.items).toMatchObject([
      { id: 'a', state: 'waiting', claimedAt: null, payloads: [{ payload: 'later', score: 0 }] },
      { id: 'b', state: 'waiting', claimedAt: null },
    ])

    await env.expire(claimer.processId)
    const { items } = await env.lockstep.find(one.queue, { state: 'waiting', by: 'id' })
    expect(items).toMatchObject([
      {
        id: 'a',
        claimedAt: null,
        payloads: [
          { payload: 'later', score: 0 },
          { payload: 'first', score: 1 },
        ],
      },
      { id: 'b' },
    ])
  })
})

describe('R11 a queue', () => {
  test('that does not exist is named with the nearest one', async () => {
    await expect(env.lockstep.find('queue1')).rejects.toMatchObject({
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
      message: 'queue "queue1" does not exist: did you mean "queue 1"?',
    })
    await expect(env.lockstep.find('something else')).rejects.toThrow(
      /does not exist: the queues are queue 1, /,
    )
    await expect(env.lockstep.pause(7 as never)).rejects.toThrow(OptionError)
  })
})
