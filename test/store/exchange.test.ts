import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import { type Ended, exchange, type Wish } from '../../src/store/exchange.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

const BEGINNING = { after: null, afterId: '' }

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

const wish = ({ queueId, queue }: TestQueue, count: number, shard = 0): Wish => ({
  key: { queueId, shard, lane: 0 },
  cursor: BEGINNING,
  count,
  maxPayloads: queue.maxPayloads,
  maxBytes: queue.maxBytes,
})

const done = ({ queueId }: TestQueue, ...rounds: Round[]): Ended => ({
  queueId,
  kind: 'complete',
  rounds,
  failures: [],
})
const released = (testQueue: TestQueue, ...rounds: Round[]): Ended => ({
  ...done(testQueue, ...rounds),
  kind: 'release',
})
const failed = (testQueue: TestQueue, retryIn: number, ...rounds: Round[]): Ended => ({
  ...done(testQueue, ...rounds),
  kind: 'fail',
  failures: rounds.map((round) => ({ round, end: 'fail', retryIn, error: `no ${round.id}` })),
})

function ask({ processId }: Claimer, ended: readonly Ended[], wishes: readonly Wish[]) {
  return exchange(env.database, processId, ended, wishes)
}

test('completes rounds of several queues and claims from several lanes, each with its own head', async () => {
  const [a, b] = [await env.queue({ shards: 1 }), await env.queue({ shards: 1, maxPayloads: 1 })]
  const claimer = await a.claimer()
  await a.push({ id: 'a1' }, { id: 'a2' }, { id: 'a3' })
  await b.push({ id: 'b1', payload: 1, score: 1 }, { id: 'b1', payload: 2, score: 2 })

  const first = await ask(claimer, [], [wish(a, 2), wish(b, 5)])
  expect(first.leftovers).toEqual([])
  const [ofA, ofB] = first.claims
  expect(ofA!.rounds.map(({ id }) => id)).toEqual(['a1', 'a2'])
  expect(ofA!.head).toBe(Math.round((await a.job('a3')).performIn * 1000))
  expect(ofB!.rounds).toMatchObject([{ id: 'b1', payloads: [1] }])
  expect(ofB!.head).toBeNull()

  // What maxPayloads left behind is claimed in the same call.
  const rounds = [done(b, ...ofB!.rounds), done(a, ...ofA!.rounds)]
  const second = await ask(claimer, rounds, [wish(b, 5), wish(a, 5)])
  expect(second.leftovers).toMatchObject([{ id: 'b1', outcome: 'again', queueId: b.queueId }])
  expect(second.claims.map((claim) => claim.rounds.map(({ id }) => id))).toEqual([['b1'], ['a3']])
  expect(second.claims[0]!.rounds[0]!.payloads).toEqual([2])
  expect(await a.countJobs()).toBe(1)
})

test('tells the head of each lane, beside lanes that give nothing, and of queues in turns', async () => {
  const [a, b] = [await env.queue({ shards: 3 }), await env.queue({ shards: 3 })]
  const claimer = await a.claimer()
  const jobs = Array.from({ length: 40 }, (_, index) => ({ id: `id ${index}`, performIn: new Date(index) }))
  await a.push(...jobs)
  await b.push(...jobs)
  const tx = await env.transaction()
  await tx.query('SELECT FROM lockstep.jobs WHERE shard = 1 FOR UPDATE')
  const cursor = { after: 0, afterId: 'a' }
  const wishes = [2, 1, 0].flatMap((shard) => [
    { ...wish(b, 3, shard), cursor },
    { ...wish(a, 2, shard), cursor },
  ])

  const { claims } = await ask(claimer, [], wishes)
  for (const [place, { key, count }] of wishes.entries()) {
    const [next] = await env.query<{ at: number }>(
      `SELECT lockstep.micros(min(perform_in))::float AS at FROM lockstep.jobs
       WHERE queue_id = $1 AND shard = $2 AND claimed_by IS NULL`,
      [key.queueId, key.shard],
    )
    expect(claims[place]!.rounds).toHaveLength(key.shard === 1 ? 0 : count)
    expect(claims[place]!.head).toBe(next!.at)
  }
  await tx.query('ROLLBACK')
})

test('P6 P7: says what is lost and what a producer holds, and does the rest', async () => {
  const testQueue = await env.queue({ shards: 1 })
  const [claimer, other] = [await testQueue.claimer(), await testQueue.claimer()]
  const ids = ['fine', 'held', 'stolen', 'next']
  await testQueue.push(...ids.map((id, index) => ({ id, performIn: new Date(index) })))
  const [taken] = (await ask(claimer, [], [wish(testQueue, 3)])).claims
  const tx = await env.transaction()
  await testQueue.pushIn(tx, { id: 'held', payload: 'more' })
  await env.query(`UPDATE lockstep.jobs SET claimed_by = $1 WHERE id = 'stolen'`, [other.processId])
  const { leftovers, claims } = await ask(claimer, [done(testQueue, ...taken!.rounds)], [wish(testQueue, 5)])
  expect(outcomes(leftovers)).toEqual(['held held', 'stolen lost'])
  expect(claims[0]!.rounds.map(({ id }) => id)).toEqual(['next'])
  await tx.query('ROLLBACK')
  await env.endSessions()
})

test('R6 R15: stores rounds that ended in any way, of several queues, and claims in the same call what waits again', async () => {
  const [a, b] = [await env.queue({ shards: 1 }), await env.queue({ shards: 1 })]
  const claimer = await a.claimer()
  const ids = ['completed', 'later', 'now', 'released']
  for (const testQueue of [a, b])
    await testQueue.push(...ids.map((id, index) => ({ id, performIn: new Date(index) })))
  const { claims } = await ask(claimer, [], [wish(a, 4), wish(b, 4)])
  const ended = [a, b].flatMap((testQueue, place) => {
    const [completed, later, now, back] = claims[place]!.rounds as [Round, Round, Round, Round]
    return [
      released(testQueue, back),
      failed(testQueue, 3600, later),
      done(testQueue, completed),
      failed(testQueue, -60, now),
    ]
  })
  const second = await ask(claimer, ended, [wish(a, 5), wish(b, 5)])
  for (const [place, testQueue] of [a, b].entries()) {
    const ours = second.leftovers.filter(({ queueId }) => queueId === testQueue.queueId)
    expect(outcomes(ours)).toEqual(['later again', 'now again', 'released again'])
    const { rounds, head } = second.claims[place]!
    expect(rounds.map(({ id, retryCount, error }) => [id, retryCount, error])).toEqual([
      ['released', -1, null],
      ['now', 0, 'no now'],
    ])
    expect(await testQueue.findJob('completed')).toBeUndefined()
    const later = await testQueue.job('later')
    expect(later).toMatchObject({ retry_count: 0, error: 'no later', claimed_by: null })
    expect(head).toBe(Math.round(later.performIn * 1000))
  }
})

test('P6 P7: of failures and releases, too, it says what is lost and what is held', async () => {
  const testQueue = await env.queue({ shards: 1 })
  const [claimer, other] = [await testQueue.claimer(), await testQueue.claimer()]
  const ids = ['failed', 'failed-held', 'failed-stolen', 'released', 'released-held', 'released-stolen']
  await testQueue.push(...ids.map((id) => ({ id })))
  const [taken] = (await ask(claimer, [], [wish(testQueue, 6)])).claims
  const of = (kind: string) => taken!.rounds.filter(({ id }) => id.startsWith(kind))
  const tx = await env.transaction()
  for (const kind of ['failed', 'released']) {
    await testQueue.pushIn(tx, { id: `${kind}-held`, payload: 'more' })
    await env.query('UPDATE lockstep.jobs SET claimed_by = $1 WHERE queue_id = $2 AND id = $3', [
      other.processId,
      testQueue.queueId,
      `${kind}-stolen`,
    ])
  }
  const { leftovers } = await ask(
    claimer,
    [failed(testQueue, 60, ...of('failed')), released(testQueue, ...of('released'))],
    [],
  )
  expect(outcomes(leftovers)).toEqual(
    ['failed', 'released'].flatMap((kind) => [`${kind} again`, `${kind}-held held`, `${kind}-stolen lost`]),
  )
  await tx.query('ROLLBACK')
  await env.endSessions()
})

test('P3: one transaction: where a claim fails, nothing is completed', async () => {
  const [good, bad] = [await env.queue({ shards: 1 }), await env.queue({ shards: 1 })]
  const claimer = await good.claimer()
  await good.push({ id: 'a' })
  await bad.push({ id: 'unclaimable' })
  const [taken] = (await ask(claimer, [], [wish(good, 1)])).claims
  await env.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON lockstep.jobs FOR EACH ROW WHEN (old.id = 'unclaimable') EXECUTE FUNCTION refuse()`)
  await expect(ask(claimer, [done(good, ...taken!.rounds)], [wish(bad, 1)])).rejects.toThrow('not this one')
  expect(await good.job('a')).toMatchObject({ claimed_by: claimer.processId })
  expect(await good.countPayloads()).toBe(1)
  expect((await ask(claimer, [done(good, ...taken!.rounds)], [])).leftovers).toEqual([])
  expect(await good.countJobs()).toBe(0)
})

test('a paused queue gives nothing, beside others that do', async () => {
  const [paused, testQueue] = [await env.queue({ shards: 1 }), await env.queue({ shards: 1 })]
  const claimer = await testQueue.claimer()
  await paused.push({ id: 'p' })
  await testQueue.push({ id: 'a' })
  await env.lockstep.pause(paused.queue)
  const { claims } = await ask(claimer, [], [wish(paused, 1), wish(testQueue, 1)])
  expect(claims.map(({ rounds }) => rounds.map(({ id }) => id))).toEqual([[], ['a']])
})
