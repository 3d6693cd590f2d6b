import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { storedPayloads } from '../support/stored-payloads.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
})

const many = (args: string) => env.query(`SELECT lockstep.enqueue_many('${testQueue.queue.name}', ${args})`)
const stored = () =>
  env.query(
    `SELECT job_id, payload, score, headers FROM ${storedPayloads()} p WHERE queue_id = $1 ORDER BY job_id`,
    [testQueue.queueId],
  )

describe('R1 enqueue_many from SQL needs ids alone', () => {
  test.each([
    ['an array', `ARRAY['a', 'b']`],
    ['a literal without a type', `'{a,b}'`],
    ['numbers, as text', 'ARRAY[1, 2]::text[]'],
  ])('%s', async (_, ids) => {
    expect(await many(ids)).toEqual([{ enqueue_many: 2 }])
    const payloads = await stored()
    expect(payloads.map(({ payload, headers }) => [payload, headers])).toEqual(Array(2).fill(['', null]))
    for (const { score } of payloads) expect(Math.abs((score as number) - Date.now())).toBeLessThan(60_000)
  })

  test('others may be named, and their numbers be of other types', async () => {
    await many(`ARRAY['a', 'b'], _scores => ARRAY[2, 1], _lanes => ARRAY[3, 4]::smallint[]`)
    await many(
      `_ids => ARRAY['c'], _payloads => '{5}', _headers => ARRAY['{"d": 6}']::jsonb[], _scores => ARRAY[1.5]`,
    )
    expect(await stored()).toEqual([
      { job_id: 'a', payload: '', score: 2, headers: null },
      { job_id: 'b', payload: '', score: 1, headers: null },
      { job_id: 'c', payload: 5, score: 1.5, headers: { d: 6 } },
    ])
    expect((await testQueue.job('b')).lane).toBe(4)
  })

  test('none are no jobs, as where no row was found', async () => {
    expect(await many(`'{}'`)).toEqual([{ enqueue_many: 0 }])
    expect(await many('NULL')).toEqual([{ enqueue_many: 0 }])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test.each([
    ['ids', 'ARRAY[1, 2]', 'integer[]'],
    ['payloads', `ARRAY['a'], ARRAY['{}']`, 'text[], text[]'],
    ['lanes', `ARRAY['a'], _lanes => ARRAY[1]`, 'text[], _lanes => integer[]'],
  ])('%s of another type are refused by what they are', async (_, args, types) => {
    await expect(many(args)).rejects.toThrow(
      `function lockstep.enqueue_many(unknown, ${types}) does not exist`,
    )
  })
})
