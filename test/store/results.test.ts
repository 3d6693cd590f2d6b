import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  openStore,
  outcomes,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'
import { Gate } from './gate.ts'

let env: StoreEnvironment
let gate: Gate

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateResults()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

/** `id result` of each result that is kept. */
async function kept({ queueId }: TestQueue): Promise<string[]> {
  const rows = await env.query<{ shown: string }>(
    "SELECT concat_ws(' ', job_id, result) AS shown FROM lockstep.results WHERE queue_id = $1 ORDER BY 1",
    [queueId],
  )
  return rows.map(({ shown }) => shown)
}

test('R18 a row that comes free in between is not completed without its result', async () => {
  const testQueue = await env.queue({ batchSize: 10 })
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v' }, { id: 'b', payload: 'v' })
  const { rounds } = await claimer.claim()
  const results = rounds.map((round) => ({ round, json: `"of ${round.id}"` }))
  const producer = await env.transaction()
  await testQueue.pushIn(producer, { id: 'b', payload: 'v' })
  const leftovers = await gate.during(
    (session) => claimer.on(session).answer(results),
    async () => {
      await producer.query('ROLLBACK')
    },
  )
  expect(outcomes(leftovers)).toEqual(['b held'])
  expect(await kept(testQueue)).toEqual(['a "of a"'])
  expect(await claimer.answer(results.slice(1))).toEqual([])
  expect(await kept(testQueue)).toEqual(['a "of a"', 'b "of b"'])
  expect(await testQueue.countJobs()).toBe(0)
})

test('R18 P5 what was pushed in work follows, and has a result of its own', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v' })
  const first = await claimer.take()
  await testQueue.push({ id: 'a', payload: 'w' })
  expect(outcomes(await claimer.answer([{ round: first, json: '1' }]))).toEqual(['a again'])
  const second = await claimer.take()
  expect(await claimer.answer([{ round: second, json: '2' }])).toEqual([])
  expect(await kept(testQueue)).toEqual(['a 1', 'a 2'])
})

test('P5 R18 a push that waited while a round began and ended is not answered with its result', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v' })
  const worker = await env.transaction()
  await worker.query("SELECT FROM lockstep.jobs WHERE queue_id = $1 AND id = 'a' FOR UPDATE", [
    testQueue.queueId,
  ])
  const producer = await env.session()
  const pid = await pidOf(producer)
  const push = producer.query('SELECT lockstep.enqueue_for_result($1, $2, $3) AS round', [
    testQueue.queue.name,
    'a',
    '"w"',
  ])
  await untilBlocked(env, pid)
  const inTime = claimer.on(worker)
  await inTime.answer([{ round: await inTime.take(), json: '"of v"' }])
  await worker.query('COMMIT')
  const { round } = (await push).rows[0]
  const state = () =>
    env.query('SELECT state, result FROM lockstep.result($1, $2, $3)', [testQueue.queue.name, 'a', round])
  expect(await state()).toEqual([{ state: 'waiting', result: null }])
  await claimer.answer([{ round: await claimer.take(), json: '"of w"' }])
  expect(await state()).toEqual([{ state: 'completed', result: 'of w' }])
})

test('P6 rounds that are lost leave none, and a number that comes twice has the last one', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v' })
  const round = await claimer.take()
  await env.query('INSERT INTO lockstep.results SELECT $2, now(), now(), $1, $3, $4', [
    testQueue.queueId,
    round.fence,
    'a',
    '"of another server"',
  ])
  expect(await claimer.answer([{ round, json: '1' }])).toEqual([])
  expect(outcomes(await claimer.answer([{ round, json: '2' }]))).toEqual(['a lost'])
  expect(await kept(testQueue)).toEqual(['a 1'])
})

test('P7 trimming leaves locked results alone, and takes no more than it may', async () => {
  const testQueue = await env.queue()
  await env.query(
    "INSERT INTO lockstep.results SELECT n, now(), now() - n * interval '1 second', $1, n::text, '1' FROM generate_series(1, 5) n",
    [testQueue.queueId],
  )
  const other = await env.transaction()
  await other.query("SELECT FROM lockstep.results WHERE job_id = '5' FOR UPDATE")
  expect(await env.query('SELECT lockstep.trim_results(2) AS trimmed')).toEqual([{ trimmed: 2 }])
  expect(await kept(testQueue)).toEqual(['1 1', '2 1', '5 1'])
})
