import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import { type Ended, exchange, type Wish } from '../../src/store/exchange.ts'
import { type Board, openStage, outcomes, type Player, type Stage } from '../support/rounds.ts'

const BEGINNING = { after: null, afterId: '' }

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

const wish = ({ queueId, queue }: Board, count: number, shard = 0): Wish => ({
  key: { queueId, shard, lane: 0 },
  cursor: BEGINNING,
  count,
  maxPayloads: queue.maxPayloads,
  maxBytes: queue.maxBytes,
})

const done = ({ queueId }: Board, ...rounds: Round[]): Ended => ({
  queueId,
  kind: 'complete',
  rounds,
  failures: [],
})
const released = (board: Board, ...rounds: Round[]): Ended => ({ ...done(board, ...rounds), kind: 'release' })
const failed = (board: Board, retryIn: number, ...rounds: Round[]): Ended => ({
  ...done(board, ...rounds),
  kind: 'fail',
  failures: rounds.map((round) => ({ round, retryIn, error: `no ${round.id}` })),
})

function ask({ processId }: Player, ended: readonly Ended[], wishes: readonly Wish[]) {
  return exchange(stage.database, processId, ended, wishes)
}

test('completes rounds of several queues and claims from several lanes, each with its own head', async () => {
  const [a, b] = [await stage.queue({ shards: 1 }), await stage.queue({ shards: 1, maxPayloads: 1 })]
  const player = await a.player()
  await a.push({ id: 'a1' }, { id: 'a2' }, { id: 'a3' })
  await b.push({ id: 'b1', payload: 1, score: 1 }, { id: 'b1', payload: 2, score: 2 })

  const first = await ask(player, [], [wish(a, 2), wish(b, 5)])
  expect(first.leftovers).toEqual([])
  const [ofA, ofB] = first.claims
  expect(ofA!.rounds.map(({ id }) => id)).toEqual(['a1', 'a2'])
  expect(ofA!.head).toBe(Math.round((await a.job('a3')).performIn * 1000))
  expect(ofB!.rounds).toMatchObject([{ id: 'b1', payloads: [1] }])
  expect(ofB!.head).toBeNull()

  // What maxPayloads left is taken in the same call.
  const rounds = [done(b, ...ofB!.rounds), done(a, ...ofA!.rounds)]
  const second = await ask(player, rounds, [wish(b, 5), wish(a, 5)])
  expect(second.leftovers).toMatchObject([{ id: 'b1', outcome: 'again', queueId: b.queueId }])
  expect(second.claims.map((claim) => claim.rounds.map(({ id }) => id))).toEqual([['b1'], ['a3']])
  expect(second.claims[0]!.rounds[0]!.payloads).toEqual([2])
  expect(await a.countJobs()).toBe(1)
})

test('tells the head of each lane, beside lanes that give nothing, and of queues in turns', async () => {
  const [a, b] = [await stage.queue({ shards: 3 }), await stage.queue({ shards: 3 })]
  const player = await a.player()
  const jobs = Array.from({ length: 40 }, (_, index) => ({ id: `id ${index}`, performIn: new Date(index) }))
  await a.push(...jobs)
  await b.push(...jobs)
  const tx = await stage.transaction()
  await tx.query('SELECT FROM lockstep.jobs WHERE shard = 1 FOR UPDATE')
  const cursor = { after: 0, afterId: 'a' }
  const wishes = [2, 1, 0].flatMap((shard) => [
    { ...wish(b, 3, shard), cursor },
    { ...wish(a, 2, shard), cursor },
  ])

  const { claims } = await ask(player, [], wishes)
  for (const [place, { key, count }] of wishes.entries()) {
    const [next] = await stage.query<{ at: number }>(
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
  const board = await stage.queue({ shards: 1 })
  const [player, other] = [await board.player(), await board.player()]
  const ids = ['fine', 'held', 'stolen', 'next']
  await board.push(...ids.map((id, index) => ({ id, performIn: new Date(index) })))
  const [taken] = (await ask(player, [], [wish(board, 3)])).claims
  const tx = await stage.transaction()
  await board.pushIn(tx, { id: 'held', payload: 'more' })
  await stage.query(`UPDATE lockstep.jobs SET claimed_by = $1 WHERE id = 'stolen'`, [other.processId])
  const { leftovers, claims } = await ask(player, [done(board, ...taken!.rounds)], [wish(board, 5)])
  expect(outcomes(leftovers)).toEqual(['held held', 'stolen lost'])
  expect(claims[0]!.rounds.map(({ id }) => id)).toEqual(['next'])
  await tx.query('ROLLBACK')
  await stage.endSessions()
})

test('R6 R15: stores rounds that ended in any way, of several queues, and claims in the same call what waits again', async () => {
  const [a, b] = [await stage.queue({ shards: 1 }), await stage.queue({ shards: 1 })]
  const player = await a.player()
  const ids = ['completed', 'later', 'now', 'released']
  for (const board of [a, b])
    await board.push(...ids.map((id, index) => ({ id, performIn: new Date(index) })))
  const { claims } = await ask(player, [], [wish(a, 4), wish(b, 4)])
  const ended = [a, b].flatMap((board, place) => {
    const [completed, later, now, back] = claims[place]!.rounds as [Round, Round, Round, Round]
    return [
      released(board, back),
      failed(board, 3600, later),
      done(board, completed),
      failed(board, -60, now),
    ]
  })
  const second = await ask(player, ended, [wish(a, 5), wish(b, 5)])
  for (const [place, board] of [a, b].entries()) {
    const ours = second.leftovers.filter(({ queueId }) => queueId === board.queueId)
    expect(outcomes(ours)).toEqual(['later again', 'now again', 'released again'])
    const { rounds, head } = second.claims[place]!
    expect(rounds.map(({ id, retryCount, error }) => [id, retryCount, error])).toEqual([
      ['released', -1, null],
      ['now', 0, 'no now'],
    ])
    expect(await board.findJob('completed')).toBeUndefined()
    const later = await board.job('later')
    expect(later).toMatchObject({ retry_count: 0, error: 'no later', claimed_by: null })
    expect(head).toBe(Math.round(later.performIn * 1000))
  }
})

test('P6 P7: of failures and releases, too, it says what is lost and what is held', async () => {
  const board = await stage.queue({ shards: 1 })
  const [player, other] = [await board.player(), await board.player()]
  const ids = ['failed', 'failed-held', 'failed-stolen', 'released', 'released-held', 'released-stolen']
  await board.push(...ids.map((id) => ({ id })))
  const [taken] = (await ask(player, [], [wish(board, 6)])).claims
  const of = (kind: string) => taken!.rounds.filter(({ id }) => id.startsWith(kind))
  const tx = await stage.transaction()
  for (const kind of ['failed', 'released']) {
    await board.pushIn(tx, { id: `${kind}-held`, payload: 'more' })
    await stage.query('UPDATE lockstep.jobs SET claimed_by = $1 WHERE queue_id = $2 AND id = $3', [
      other.processId,
      board.queueId,
      `${kind}-stolen`,
    ])
  }
  const { leftovers } = await ask(
    player,
    [failed(board, 60, ...of('failed')), released(board, ...of('released'))],
    [],
  )
  expect(outcomes(leftovers)).toEqual(
    ['failed', 'released'].flatMap((kind) => [`${kind} again`, `${kind}-held held`, `${kind}-stolen lost`]),
  )
  await tx.query('ROLLBACK')
  await stage.endSessions()
})

test('P3: one transaction: where a claim fails, nothing is completed', async () => {
  const [good, bad] = [await stage.queue({ shards: 1 }), await stage.queue({ shards: 1 })]
  const player = await good.player()
  await good.push({ id: 'a' })
  await bad.push({ id: 'unclaimable' })
  const [taken] = (await ask(player, [], [wish(good, 1)])).claims
  await stage.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON lockstep.jobs FOR EACH ROW WHEN (old.id = 'unclaimable') EXECUTE FUNCTION refuse()`)
  await expect(ask(player, [done(good, ...taken!.rounds)], [wish(bad, 1)])).rejects.toThrow('not this one')
  expect(await good.job('a')).toMatchObject({ claimed_by: player.processId })
  expect(await good.countPayloads()).toBe(1)
  expect((await ask(player, [done(good, ...taken!.rounds)], [])).leftovers).toEqual([])
  expect(await good.countJobs()).toBe(0)
})

test('a paused queue gives nothing, beside others that do', async () => {
  const [paused, board] = [await stage.queue({ shards: 1 }), await stage.queue({ shards: 1 })]
  const player = await board.player()
  await paused.push({ id: 'p' })
  await board.push({ id: 'a' })
  await stage.lockstep.pause(paused.queue)
  const { claims } = await ask(player, [], [wish(paused, 1), wish(board, 1)])
  expect(claims.map(({ rounds }) => rounds.map(({ id }) => id))).toEqual([[], ['a']])
})
