import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Board, openStage, type Stage } from '../support/rounds.ts'

const PRODUCERS = 50

let stage: Stage
let board: Board

beforeAll(async () => {
  stage = await openStage()
  await stage.query(`ALTER TABLE lockstep.jobs ADD CONSTRAINT refused CHECK (id <> 'z')`)
})
afterAll(() => stage?.close())
beforeEach(async () => {
  board = await stage.queue()
  // The queue is known from here on, and the sessions are there.
  await push('first')
})
afterEach(() => stage.endSessions())

const push = (id: string, payload: unknown = id) => stage.lockstep.enqueue(board.queue, { id, payload })
const ids = Array.from({ length: PRODUCERS }, (_, index) => `${index}`)

describe('pushes that come while others are under way go together', () => {
  test('all are stored, with fewer commits than calls', async () => {
    const before = await transactions()
    expect(await Promise.all(ids.map((id) => push(id)))).toEqual(ids.map(() => 1))
    expect((await transactions()) - before).toBeLessThan(PRODUCERS / 2)
    expect(await board.countJobs()).toBe(PRODUCERS + 1)
  })

  test('R1: payloads of one id that go together keep the order of the calls', async () => {
    const [first, second, ...others] = ids
    const alone = [push('a', first), push('a', second)]
    await Promise.all([...alone, ...others.map((payload) => push('a', payload))])
    const player = await board.player()
    const payloads: unknown[] = []
    for (let claim = await player.claim(); claim.rounds.length > 0; claim = await player.claim()) {
      payloads.push(...claim.rounds.flatMap((round) => round.payloads))
    }
    expect(payloads.filter((payload) => others.includes(payload as string))).toEqual(others)
  })

  test('several queues, each its own', async () => {
    const other = await stage.queue()
    const pushOther = (id: string) => stage.lockstep.enqueue(other.queue, { id })
    await Promise.all(ids.flatMap((id) => [push(id), pushOther(id)]))
    expect([await board.countJobs(), await other.countJobs()]).toEqual([PRODUCERS + 1, PRODUCERS])
  })

  test('what is refused is refused alone', async () => {
    const pushes = await Promise.allSettled([...ids, 'z'].map((id) => push(id)))
    const refused = pushes.filter(({ status }) => status === 'rejected')
    expect(refused).toMatchObject([{ reason: { message: expect.stringContaining('constraint "refused"') } }])
    expect(await board.countJobs()).toBe(PRODUCERS + 1)
  })

  test('P7: a row in somebody’s open transaction holds up its own pushes alone', async () => {
    const holder = await stage.transaction()
    await board.pushIn(holder, { id: 'held', payload: 1 })
    const held = [2, 3, 4].map((payload) => push('held', payload))
    await Promise.all(ids.map((id) => push(id)))
    expect(await board.countJobs()).toBe(PRODUCERS + 1)
    await holder.query('COMMIT')
    await Promise.all(held)
    expect(await board.countPayloads()).toBe(PRODUCERS + 1 + 4)
  })
})

/** Transactions that have written, so far. */
async function transactions(): Promise<number> {
  const [row] = await stage.query<{ count: number }>(
    'SELECT pg_snapshot_xmax(pg_current_snapshot())::text::integer AS count',
  )
  return row!.count
}
