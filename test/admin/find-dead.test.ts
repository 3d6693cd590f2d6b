import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DeadFilter, OptionError, type Page } from '../../src/index.ts'
import type { DeadSort } from '../../src/store/morgue.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { bury } from './bury.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

describe('R11 finding in the morgue', () => {
  let testQueue: TestQueue

  beforeAll(async () => {
    testQueue = await env.queue()
    const ids = ['a', 'B', 'é', '𝄞', '\uffee']
    await bury(
      testQueue,
      ...Array.from({ length: 50 }, (_, n) => ({ id: ids[n % 5]!, payload: n, score: n })),
    )
    // Ties down to the microsecond, scores that a decimal fraction can't hold, and a time far beyond the others.
    await env.query(
      `UPDATE lockstep.morgue SET
         died_at = timestamptz '2030-01-01 00:00:00.000999Z' + (score::integer % 6) * interval '1 microsecond'
           + (score = 13)::integer * interval '7000 years',
         score = CASE score::integer % 5 WHEN 0 THEN 0.1::float8 + 0.2::float8 WHEN 1 THEN 0.3 WHEN 2 THEN -1e300
           WHEN 3 THEN 5e-324 ELSE score END
       WHERE queue_id = $1`,
      [testQueue.queueId],
    )
  })

  const COLUMNS = { id: 'job_id, digest', diedAt: 'died_at, job_id, digest', score: 'score, job_id, digest' }

  async function sorted(by: DeadSort): Promise<string[]> {
    const rows = await env.query<{ key: string }>(
      `SELECT job_id || encode(digest, 'hex') AS key FROM lockstep.morgue WHERE queue_id = $1 ORDER BY ${COLUMNS[by]}`,
      [testQueue.queueId],
    )
    return rows.map(({ key }) => key)
  }

  async function turn(page: Page<DeadSort>): Promise<string[]> {
    const keys: string[] = []
    let after: string | undefined
    do {
      const { items, next } = await env.lockstep.findDead(testQueue.queue, { ...page, after })
      keys.push(...items.map(({ id, digest }) => id + digest))
      after = next
    } while (after !== undefined)
    return keys
  }

  for (const by of ['id', 'diedAt', 'score'] as const) {
    test(`pages by ${by} are the full sort cut in pieces, in both directions, whatever their size`, async () => {
      const all = await sorted(by)
      expect(all).toHaveLength(50)
      for (const limit of [1, 7, 50, 51]) {
        expect(await turn({ by, limit })).toEqual(all)
        expect(await turn({ by, limit, direction: 'desc' })).toEqual(all.toReversed())
      }
    })
  }

  test('is by diedAt, ascending, unless told otherwise', async () => {
    const { items } = await env.lockstep.findDead(testQueue.queue.name)
    expect(items.map(({ id, digest }) => id + digest)).toEqual(await sorted('diedAt'))
  })

  test('filters by id, time, score and digest, both ends of a range belonging to it', async () => {
    const { items } = await env.lockstep.findDead(testQueue.queue)
    const one = items[20]!
    const count = async (filter: DeadFilter) =>
      (await env.lockstep.findDead(testQueue.queue, filter)).items.length
    expect(await count({ ids: ['a', 'missing'] })).toBe(10)
    expect(await count({ id: { from: 'B', to: 'a' } })).toBe(20)
    expect(await count({ score: { from: 0.3, to: 0.1 + 0.2 } })).toBe(20)
    expect(await count({ score: { from: Number.NEGATIVE_INFINITY, to: -1e300 } })).toBe(10)
    expect(await count({ diedAt: { from: one.diedAt, to: one.diedAt } })).toBe(
      items.filter(({ diedAt }) => diedAt.getTime() === one.diedAt.getTime()).length,
    )
    expect(await count({ digests: [one.digest.toUpperCase(), 'ab'.repeat(32)] })).toBe(1)
    expect(await count({ digests: [] })).toBe(0)
    expect(
      (await env.lockstep.findDead(testQueue.queue, { ids: [one.id], digests: [one.digest] })).items,
    ).toEqual([one])
  })

  test.each([
    [{ score: { from: Number.NaN } }, 'findDead: score.from must be a number, not NaN'],
    [{ digests: ['xyz'] }, 'findDead: digests[0] must be 64 hexadecimal digits, not "xyz"'],
    [{ performIn: {} }, 'findDead: unknown option `performIn`, the known ones are ids'],
    [{ after: 'x' }, 'after must be the `next` of an earlier page sorted by `diedAt`'],
    [
      { after: Buffer.from('["score","1e999","a","00"]').toString('base64url'), by: 'score' },
      'after must be',
    ],
    [{ after: Buffer.from('["id","a","0"]').toString('base64url'), by: 'id' }, 'after must be'],
  ])('%j is refused', async (filter, message) => {
    const finding = env.lockstep.findDead(testQueue.queue, filter as DeadFilter)
    await expect(finding).rejects.toThrow(OptionError)
    await expect(finding).rejects.toThrow(message)
  })
})
