import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import {
  type Claimer,
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

describe('R18 of equal payloads, each push is told of its own', () => {
  /** Pushes the payload `same` for its result. */
  async function pushSame({ queue }: TestQueue): Promise<string> {
    return (await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 'same' })).round
  }

  /** `completed "…"`, `dead …`, or another state. */
  async function told({ queue }: TestQueue, round: string): Promise<string> {
    const { state, ...rest } = await env.lockstep.result(queue, 'a', round)
    if ('result' in rest) return `${state} ${JSON.stringify(rest.result)}`
    return state === 'dead' && 'error' in rest ? `${state} ${rest.error}` : state
  }

  /** How a round may die. */
  const deaths: [string, (claimer: Claimer, round: Round) => Promise<unknown>][] = [
    ['fails for the last time', (claimer, round) => claimer.fail([round], null)],
    ['is discarded', (claimer, round) => claimer.discard(round)],
  ]

  test.each(deaths)('P5 a push waits for the next round if the one in work %s', async (_, die) => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const before = await pushSame(testQueue)
    const inWork = await claimer.take()
    const after = await pushSame(testQueue)
    expect(await told(testQueue, after)).toBe('working')
    await die(claimer, inWork)
    expect(await told(testQueue, before)).toMatch(/^dead/)
    expect(await told(testQueue, after)).toBe('waiting')
    const next = await claimer.take()
    expect(await told(testQueue, after)).toBe('working')
    expect(await claimer.answer([{ round: next, json: '1' }])).toEqual([])
    expect(await told(testQueue, before)).toMatch(/^dead/)
    expect(await told(testQueue, after)).toBe('completed 1')
  })

  test.each(deaths)('R7 a push whose round %s stays dead, whatever comes later', async (_, die) => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const before = await pushSame(testQueue)
    await die(claimer, await claimer.take())
    const after = await pushSame(testQueue)
    expect(await told(testQueue, before)).toMatch(/^dead/)
    expect(await told(testQueue, after)).toBe('waiting')
    expect(await claimer.answer([{ round: await claimer.take(), json: '1' }])).toEqual([])
    expect(await told(testQueue, before)).toMatch(/^dead/)
    expect(await told(testQueue, after)).toBe('completed 1')
  })

  test.each(deaths)(
    'a push whose round ended with success has its result, though the next %s',
    async (_, die) => {
      const testQueue = await env.queue()
      const claimer = await testQueue.claimer()
      const before = await pushSame(testQueue)
      const inWork = await claimer.take()
      const after = await pushSame(testQueue)
      await claimer.answer([{ round: inWork, json: '1' }])
      await die(claimer, await claimer.take())
      expect(await told(testQueue, before)).toBe('completed 1')
      expect(await told(testQueue, after)).toMatch(/^dead/)
    },
  )

  test('R11 a kill of what waits behind a round is none of what the round took', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const before = await pushSame(testQueue)
    const inWork = await claimer.take()
    const after = await pushSame(testQueue)
    await env.lockstep.kill(testQueue.queue, { ids: ['a'] })
    expect(await told(testQueue, before)).toBe('working')
    expect(await told(testQueue, after)).toBe('dead killed')
    await claimer.fail([inWork])
    expect(await told(testQueue, before)).toBe('waiting')
    expect(await claimer.answer([{ round: await claimer.take(), json: '1' }])).toEqual([])
    expect(await told(testQueue, before)).toBe('completed 1')
    expect(await told(testQueue, after)).toBe('dead killed')
  })

  test('R11 a killed one stays dead while an equal one waits, and after that', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const before = await pushSame(testQueue)
    await env.lockstep.kill(testQueue.queue, { ids: ['a'] })
    const after = await pushSame(testQueue)
    expect(await told(testQueue, before)).toBe('dead killed')
    expect(await told(testQueue, after)).toBe('waiting')
    expect(await claimer.answer([{ round: await claimer.take(), json: '1' }])).toEqual([])
    expect(await told(testQueue, before)).toBe('dead killed')
    expect(await told(testQueue, after)).toBe('completed 1')
  })

  test('R11 a kill that waits for pushes takes them, too', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', payload: 'other' })
    const producer = await env.transaction()
    await producer.query("SELECT FROM lockstep.jobs WHERE queue_id = $1 AND id = 'a' FOR UPDATE", [
      testQueue.queueId,
    ])
    const killing = await env.session()
    const pid = await pidOf(killing)
    const kill = killing.query("SELECT lockstep.kill($1, '{a}')", [testQueue.queueId])
    await untilBlocked(env, pid)
    const { rows } = await producer.query(
      `SELECT nextval('lockstep.fences'), lockstep.enqueue_for_result($1, 'a', '"same"') AS round`,
      [testQueue.queue.name],
    )
    await producer.query('COMMIT')
    await kill
    expect(await told(testQueue, rows[0].round)).toBe('dead killed')
  })

  test('after a restore, what died before does not count, though its fence is above', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    await pushSame(testQueue)
    await claimer.discard(await claimer.take())
    await env.query('UPDATE lockstep.morgue SET pushed_before = pushed_before + 1000 WHERE queue_id = $1', [
      testQueue.queueId,
    ])
    expect(await told(testQueue, await pushSame(testQueue))).toBe('waiting')
  })

  test('what died before the morgue said whose it was is told by the time', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    const before = await pushSame(testQueue)
    await claimer.discard(await claimer.take())
    await env.query('UPDATE lockstep.morgue SET pushed_before = NULL WHERE queue_id = $1', [
      testQueue.queueId,
    ])
    expect(await told(testQueue, before)).toBe('dead discarded')
    const after = await pushSame(testQueue)
    expect(await told(testQueue, after)).toBe('waiting')
    await claimer.answer([{ round: await claimer.take(), json: '1' }])
    expect([await told(testQueue, before), await told(testQueue, after)]).toEqual([
      'dead discarded',
      'completed 1',
    ])
  })
})
