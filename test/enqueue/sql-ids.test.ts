import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  await env.query(`
    CREATE DOMAIN code AS text; CREATE DOMAIN number AS bigint; CREATE TYPE color AS ENUM ('red');
    CREATE TABLE rows (short varchar(9), long text, fixed char(5), name name, big bigint, code code, number number);
    INSERT INTO rows VALUES ('short', 'long', 'fixed', 'name', 8, 'code', 9)`)
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
})

const ids = async () =>
  (
    await env.query<{ id: string }>('SELECT id FROM lockstep.jobs WHERE queue_id = $1 ORDER BY id', [
      testQueue.queueId,
    ])
  ).map(({ id }) => id)

const UUID = '0b5a4d4c-7b1e-4a53-9d0e-3b1f0f6f2c11'

describe('R1 an id of any type is its text', () => {
  test.each([
    ['an integer', '17', '17'],
    ['a bigint', '9007199254740993::bigint', '9007199254740993'],
    ['a numeric', '1.50', '1.50'],
    ['a uuid', `'${UUID}'::uuid`, UUID],
    ['an enum', `'red'::color`, 'red'],
    ['a domain over bigint', '5::number', '5'],
    ['a domain over text', `'x'::code`, 'x'],
    ['a row', `ROW(1, 'a')`, '(1,a)'],
    ['a text', `'17'::text`, '17'],
    ['an untyped literal', `'17'`, '17'],
    ['a varchar', `'x'::varchar(3)`, 'x'],
    ['a name', `'x'::name`, 'x'],
  ])('%s', async (_, id, text) => {
    for (const made of [true, false])
      expect(await env.query(`SELECT lockstep.enqueue($1, ${id}, '1')`, [testQueue.queue.name])).toEqual([
        { enqueue: made },
      ])
    expect(await ids()).toEqual([text])
  })

  test.each(['short', 'long', 'fixed', 'name', 'big', 'code', 'number'])(
    'from a column: %s',
    async (column) => {
      await env.query(`SELECT lockstep.enqueue($1, ${column}, to_jsonb(rows)) FROM rows`, [
        testQueue.queue.name,
      ])
      const [row] = await env.query<{ text: string }>(`SELECT ${column}::text AS text FROM rows`)
      expect(await ids()).toEqual([row!.text])
    },
  )

  test('parameters without types and named arguments are taken as before', async () => {
    const { name } = testQueue.queue
    const all = [name, 'a', '{"b": 1}', 2.5, new Date(0), 3, '{"c": 4}']
    await env.query('SELECT lockstep.enqueue($1, $2, $3, $4, $5, $6, $7)', all)
    expect(await testQueue.job('a')).toMatchObject({ lane: 3, performIn: 0 })
    await env.query('SELECT lockstep.enqueue(id => $2, queue => $1)', [name, 'b'])
    await env.query('SELECT lockstep.enqueue(id => 18, queue => $1, score => 2, lane => 4)', [name])
    await env.query(
      `SELECT lockstep.enqueue($1, id => 19::bigint, headers => '{}', perform_in => now(), payload => '1')`,
      [name],
    )
    expect(await ids()).toEqual(['18', '19', 'a', 'b'])
    expect(await testQueue.job('18')).toMatchObject({ lane: 4 })
  })

  test.each(['NULL', 'NULL::text', 'NULL::bigint', 'NULL::uuid', `''`, `''::name`])(
    'none is a clear error: %s',
    async (id) => {
      await expect(
        env.query(`SELECT lockstep.enqueue($1, ${id})`, [testQueue.queue.name]),
      ).rejects.toMatchObject({
        code: 'LOCKSTEP_BAD_JOB',
        message: expect.stringContaining('jobs[0].id is required and must not be empty'),
      })
    },
  )

  test('an array is none', async () => {
    await expect(env.query('SELECT lockstep.enqueue($1, ARRAY[1])', [testQueue.queue.name])).rejects.toThrow(
      'function lockstep.enqueue(unknown, integer[]) does not exist',
    )
  })

  test('costs nothing: the planner calls the form for text', async () => {
    const plan = await env.query(`EXPLAIN (VERBOSE, COSTS OFF) SELECT lockstep.enqueue('q', big) FROM rows`)
    expect(JSON.stringify(plan)).toContain(`enqueue('q'::text, (big)::text,`)
  })
})
