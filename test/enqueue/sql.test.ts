import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { toLockstepError } from '../../src/postgres/failure.ts'
import { openStore, type StoreEnvironment, shown, type TestQueue } from '../support/store-environment.ts'
import { storedPayloads } from '../support/stored-payloads.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue({ batchSize: 10 })
})

/** `SELECT lockstep.enqueue('queue …', …)` with these arguments as given. */
const enqueue = (args: string) => env.query(`SELECT lockstep.enqueue('${testQueue.queue.name}', ${args})`)

/** A JSON array of a number many times over. As jsonb from the start, since `jsonb_agg` makes the text of each number. */
const copies = (number: string, count: number) =>
  `(SELECT jsonb_agg(one) FROM (SELECT to_jsonb(${number}) AS one OFFSET 0) AS ones, generate_series(1, ${count}))`

describe('R1 enqueue from SQL', () => {
  test('takes what JavaScript takes, with the same defaults', async () => {
    await enqueue(`'a', '{"status":"paid"}'`)
    await enqueue(`'b'`)
    await enqueue(
      `id => 'c', payload => '1', score => -2.5, perform_in => '2018-09-07 12:28:08+00', lane => 3`,
    )
    await enqueue(`'d', NULL, NULL, NULL, NULL`)
    expect(await testQueue.job('c')).toMatchObject({ lane: 3, performIn: 1_536_323_288_000 })
    expect(await testQueue.set('c')).toEqual(['1[-2.5]'])
    const { rounds } = await (await testQueue.claimer()).claim()
    expect(rounds.map(({ id, payloads }) => [id, payloads])).toEqual([
      ['a', [{ status: 'paid' }]],
      ['b', ['']],
      ['d', ['']],
    ])
  })

  test('is of the moment, not of the transaction’s start', async () => {
    await env.query(`DO $$ BEGIN
      PERFORM lockstep.enqueue('${testQueue.queue.name}', 'b', '1');
      PERFORM lockstep.enqueue('${testQueue.queue.name}', 'a', '1');
      PERFORM lockstep.enqueue('${testQueue.queue.name}', 'b', '2');
    END $$`)
    const { rounds } = await (await testQueue.claimer()).claim()
    expect(rounds.map(({ id }) => id)).toEqual(['b', 'a'])
    const [first, last] = rounds[0]!.scores
    expect(first).toBeLessThan(rounds[1]!.scores[0]!)
    expect(last).toBeGreaterThan(rounds[1]!.scores[0]!)
  })

  test('P4 exists when its transaction commits', async () => {
    const tx = await env.transaction()
    await tx.query(`SELECT lockstep.enqueue($1, 'a', '1', 1)`, [testQueue.queue.name])
    expect(await testQueue.countJobs()).toBe(0)
    await tx.query('ROLLBACK; BEGIN')
    await tx.query(`SELECT lockstep.enqueue($1, 'a', '2', 2)`, [testQueue.queue.name])
    await tx.query('COMMIT')
    await env.endSessions()
    expect(shown([await (await testQueue.claimer()).take()])).toEqual(['a: 2[2]'])
  })

  test.each([
    ['no id', 'NULL', 'id is required and must not be empty'],
    ['an empty id', `''`, 'id is required'],
    ['2,000 bytes', `repeat('é', 1000)`, 'id must be at most 1,024 bytes, not 2000'],
    ['20 MB', `'a', to_jsonb(repeat('x', 20000000))`, 'payload must be at most 8 MiB'],
    ['one byte more than 12 MiB', `'a', to_jsonb(repeat('x', 12582911))`, 'payload must be at most 8 MiB'],
    [
      '1 KB of numbers, 13 MB written out',
      `'a', ('[' || repeat('1e131071,', 96) || '1]')::jsonb`,
      'payload must be at most 8 MiB',
    ],
    [
      'small numbers that are written long',
      `'a', ('[' || repeat('0e-16383,', 800) || '1]')::jsonb`,
      'payload must be at most 8 MiB',
    ],
    ['NaN', `'a', '1', 'NaN'`, 'score must be a finite number'],
    ['Infinity', `'a', '1', '-Infinity'`, 'score must be a finite number'],
    ['infinity', `'a', '1', 1, 'infinity'`, 'perform_in must be a finite time'],
    [
      'too late',
      `'a', '1', 1, '10000-01-01 00:00+00'`,
      'perform_in must be a finite time before the year 10000',
    ],
    ['a negative lane', `'a', '1', 1, NULL, -1`, 'lane must be a whole number from 0 to 32767'],
    ['a lane too high', `'a', '1', 1, NULL, 40000`, 'lane must be a whole number from 0 to 32767'],
    ['an array as headers', `'a', headers => '[1]'`, 'headers must be a JSON object'],
    ['null as headers', `'a', headers => 'null'`, 'headers must be a JSON object'],
    [
      '25 KB of headers',
      `'a', headers => jsonb_build_object('a', repeat('x', 25000))`,
      'headers must be at most 16 KiB',
    ],
    [
      'headers of numbers, long written out',
      `'a', headers => ('{"a": [' || repeat('1e131071,', 8500) || '1]}')::jsonb`,
      'headers must be at most 16 KiB',
    ],
    [
      'headers of more text than Postgres can make',
      `'a', headers => jsonb_build_object('a', ${copies('round(1e131071, 16383)', 7_600)})`,
      'headers must be at most 16 KiB',
    ],
  ])('rejects by index and field: %s', { timeout: 120_000 }, async (_name, args, problem) => {
    await expect(enqueue(args)).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_JOB',
      message: expect.stringContaining(`jobs[0].${problem}`),
    })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test.each([
    ['text of 12 MiB', `to_jsonb(repeat('x', 12582910))`],
    ['a number of 131,072 digits', `'1e131071'`],
    ['as many as go into 12 MiB', `('[' || repeat('1e131071,', 95) || '1]')::jsonb`],
  ])('takes what may be a payload within the limit, written out: %s', async (_name, payload) => {
    await enqueue(`'a', ${payload}`)
    expect(await env.query(`SELECT FROM ${storedPayloads()} p WHERE payload = ${payload}`)).toHaveLength(1)
  })

  test('takes 16 KiB of headers, however much their jsonb takes', async () => {
    const headers = `{"a":[${'1,'.repeat(8187)}1]}`
    expect(headers.length).toBe(16_383)
    await enqueue(`'a', headers => '${headers}'`)
    expect(
      await env.query('SELECT headers FROM lockstep.jobs WHERE queue_id = $1', [testQueue.queueId]),
    ).toEqual([{ headers: JSON.parse(headers) }])
  })

  test('rejects a payload beyond the limit that comes compressed from a table', async () => {
    await env.query('CREATE TABLE documents AS SELECT to_jsonb(repeat($1, 20000000)) AS body', ['x'])
    const sizes = await env.query('SELECT pg_column_size(body) < 1000000 AS small FROM documents')
    expect(sizes).toEqual([{ small: true }])
    await expect(
      env.query(`SELECT lockstep.enqueue($1, 'a', body) FROM documents`, [testQueue.queue.name]),
    ).rejects.toThrow('jobs[0].payload must be at most 8 MiB')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('rejects a payload of more text than Postgres can make', {
    tags: 'slow',
    timeout: 120_000,
  }, async () => {
    await expect(enqueue(`'a', ('[' || repeat('1e131071,', 8500) || '1]')::jsonb`)).rejects.toThrow(
      'jobs[0].payload must be at most 8 MiB',
    )
  })

  test('rejects text that is no JSON', async () => {
    await expect(enqueue(`'a', '{status: 1}'`)).rejects.toThrow('invalid input syntax for type json')
  })
})

describe('R1 enqueue_many from SQL', () => {
  const many = (ids: (string | null)[], lanes: number[] = []) =>
    env.query('SELECT lockstep.enqueue_many($1, $2, NULL, NULL, NULL, $3)', [
      testQueue.queue.name,
      ids,
      lanes,
    ])

  test('stores nothing of a call with a bad job, and names its index', async () => {
    await expect(many(['a', 'b', '', null])).rejects.toThrow('jobs[2].id is required')
    await expect(many(['b', 'a'], [0, -1])).rejects.toThrow('jobs[1].lane')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('measures payloads by the text they unfold to, whether their ids are new or there', async () => {
    const large = `[${'1e131071,'.repeat(100)}1]`
    const push = (ids: string[], payloads: string[]) =>
      env.query('SELECT lockstep.enqueue_many($1, $2, $3::jsonb[], NULL, NULL, NULL)', [
        testQueue.queue.name,
        ids,
        payloads,
      ])
    const refusal =
      'jobs[2].payload must be at most 8 MiB, or 12 MiB with its numbers written out: store large data elsewhere'
    await expect(push(['a', 'b', 'c', 'd'], ['1', '2', large, '4'])).rejects.toThrow(refusal)
    expect(await testQueue.countJobs()).toBe(0)
    await push(['a', 'c'], ['1', '1e131071'])
    await expect(push(['d', 'a', 'c'], ['4', '2', large])).rejects.toThrow(refusal)
    expect(
      await env.query(`SELECT FROM ${storedPayloads()} p WHERE queue_id = $1`, [testQueue.queueId]),
    ).toHaveLength(2)
  })

  test.each([
    ['whose index starts at 0', (elements: string[]) => `'[0:2]={${elements.join()}}'`],
    ['of two dimensions', (elements: string[]) => `'{${elements.map((element) => `{${element}}`).join()}}'`],
  ])('takes arrays %s, whether the ids are new or there', async (_name, array) => {
    const push = (from: number) => {
      const numbers = [from, from + 1, from + 2].map(String)
      const headers = numbers.map((number) => `"{\\"n\\": ${number}}"`)
      return env.query(
        `SELECT lockstep.enqueue_many($1, ${array(['a', 'b', 'a'])}, ${array(numbers)}::jsonb[],
           ${array(numbers)}, NULL, NULL, ${array(headers)}::jsonb[])`,
        [testQueue.queue.name],
      )
    }
    await push(1)
    await push(4)
    const stored = await env.query(
      `SELECT job_id, payload, score, headers FROM ${storedPayloads()} p WHERE queue_id = $1 ORDER BY score`,
      [testQueue.queueId],
    )
    expect(stored).toEqual(
      [...'abaaba'].map((id, index) => ({
        job_id: id,
        payload: index + 1,
        score: index + 1,
        headers: { n: index + 1 },
      })),
    )
  })

  test('rejects by its index what is more text than Postgres can make, beside headers', {
    tags: 'slow',
    timeout: 120_000,
  }, async () => {
    const call = env.query(
      `SELECT lockstep.enqueue_many($1, '{a,a}',
         ARRAY['1', ${copies('1e131071', 8_300)}], NULL, NULL, NULL,
         ARRAY['{}', NULL]::jsonb[])`,
      [testQueue.queue.name],
    )
    await expect(call).rejects.toThrow('jobs[1].payload must be at most 8 MiB')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('returns how many were given, and takes defaults for what is short', async () => {
    expect(await many(['b', 'a', 'b'], [4])).toEqual([{ enqueue_many: 3 }])
    expect(await testQueue.job('b')).toMatchObject({ lane: 4 })
    expect(await testQueue.job('a')).toMatchObject({ lane: 0 })
  })
})

describe('R1 a queue that is unknown', () => {
  test('is a clear error', async () => {
    const error = await env.query(`SELECT lockstep.enqueue('ordesr', 'a')`).catch((e) => e)
    expect(error).toMatchObject({
      name: 'DatabaseError',
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
      message: expect.stringContaining(
        'queue "ordesr" does not exist; start a worker that defines it, or create it',
      ),
    })
    expect(toLockstepError(error)).toBe(error)
  })

  test.each(['', 'x'.repeat(300), null])('is an error too where its name is no name: %s', async (name) => {
    await expect(env.query(`SELECT lockstep.enqueue($1, 'a')`, [name])).rejects.toMatchObject({
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
    })
  })

  test('can be created from SQL, once, with a name and shards in their bounds', async () => {
    const create = async (name: string | null, shards: number | null) =>
      (await env.query<{ id: number }>('SELECT lockstep.create_queue($1, $2) AS id', [name, shards]))[0]!.id
    const ids = await Promise.all(Array.from({ length: 8 }, () => create('from SQL', 3)))
    expect(new Set(ids).size).toBe(1)
    expect(await create('from SQL', 4)).toBe(ids[0])
    await env.query(`SELECT lockstep.enqueue('from SQL', 'a')`)
    const name = 'the name of a queue must be text of 1 to 511 bytes'
    const shards = 'shards must be a whole number from 1 to 16384'
    for (const [called, parts, told] of [
      ['', 1, `${name}, not 0`],
      ['é'.repeat(256), 1, `${name}, not 512`],
      [null, 1, `${name}, not NULL`],
      ['none', 0, `${shards}, not 0`],
      ['many', 16_385, `${shards}, not 16385`],
      ['unsaid', null, `${shards}, not NULL`],
    ] as const)
      await expect(create(called, parts)).rejects.toMatchObject({ message: told, code: '22023' })
  })
})
