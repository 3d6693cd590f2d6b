import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
beforeEach(async () => {
  testQueue = await env.queue()
})
afterAll(() => env?.close())

/** `id until` of each job in the queue, by id. */
async function expiries(): Promise<string[]> {
  const rows = await env.query<{ id: string; until: number | null }>(
    `SELECT id, payloads -> 0 -> 'expiresIn' AS until FROM lockstep.waiting WHERE queue = $1 ORDER BY id`,
    [testQueue.queue.name],
  )
  return rows.map(({ id, until }) => `${id} ${until === null ? 'never' : new Date(until).toISOString()}`)
}

const enqueue = (rest: string) => env.query(`SELECT lockstep.enqueue($1, ${rest})`, [testQueue.queue.name])
const many = (rest: string) => env.query(`SELECT lockstep.enqueue_many($1, ${rest})`, [testQueue.queue.name])

test('R17 enqueue and enqueue_many take expiries', async () => {
  await enqueue(`'a', expires_in => '2500-01-01Z'`)
  await enqueue(`17, expires_in => '2500-01-02Z', perform_in => '2500-01-02Z'`)
  await many(`'{b,c,d}', _expires_ins => '{2500-01-03Z,NULL}'`)
  // Arrays of another beginning, and of more dimensions.
  await many(`'{e,f}', _expires_ins => '[0:1]={2500-01-04Z,2500-01-05Z}'`)
  await many(`'{g,h}', _expires_ins => '{{2500-01-06Z,NULL}}'`)
  expect(await expiries()).toEqual([
    '17 2500-01-02T00:00:00.000Z',
    'a 2500-01-01T00:00:00.000Z',
    'b 2500-01-03T00:00:00.000Z',
    'c never',
    'd never',
    'e 2500-01-04T00:00:00.000Z',
    'f 2500-01-05T00:00:00.000Z',
    'g 2500-01-06T00:00:00.000Z',
    'h never',
  ])
})

test.each([
  ['infinity', `'infinity'`, 'must be a finite time before the year 10000'],
  ['the year 10000', `'10000-01-01Z'`, 'must be a finite time before the year 10000'],
  [
    'before its time',
    `'2500-01-01Z', perform_in => '2500-01-01 00:00:00.000001Z'`,
    'must not be before perform_in',
  ],
])('R17 an expiry is refused: %s', async (_, expiry, problem) => {
  await expect(enqueue(`'a', expires_in => ${expiry}`)).rejects.toMatchObject({
    message: expect.stringContaining(`jobs[0].expires_in ${problem}`),
  })
  const arrays = expiry.replace('perform_in =>', '_perform_ins =>').replaceAll(/'([^']+)'/g, `'{NULL,$1}'`)
  await expect(many(`'{a,b}', _expires_ins => ${arrays}`)).rejects.toMatchObject({
    message: expect.stringContaining(`jobs[1].expires_in ${problem}`),
  })
  await expect(many(`'{a}', _expires_ins => '{NULL,2500-01-01Z}'`)).rejects.toThrow('jobs[1].id is required')
  expect(await testQueue.countJobs()).toBe(0)
})
