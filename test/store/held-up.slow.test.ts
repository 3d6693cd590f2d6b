import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Cursor, Round } from '../../src/store/claim.ts'
import { lockShared } from '../../src/store/lock.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  type StoreEnvironment,
  until,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000

let env: StoreEnvironment

beforeAll(async () => {
  // These tests read the statistics of one table and its indexes.
  env = await openStore('plain')
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

describe('P7 an open transaction elsewhere', () => {
  test('a claim skips the rows that a producer’s holds and takes the others', async () => {
    const testQueue = await env.queue({ batchSize: 3 })
    const claimer = await testQueue.claimer()
    await testQueue.push(
      ...['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, payload: 'v', score: 1, performIn: PAST })),
    )
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'w', score: 2 }, { id: 'c', payload: 'w', score: 2 })

    const first = await claimer.claim()
    expect(first.rounds.map(({ id }) => id)).toEqual(['b', 'd', 'e'])
    expect((await claimer.claim()).rounds).toEqual([])
    await producer.query('COMMIT')
    const second = await claimer.claim()
    expect(second.rounds.map(({ id, payloads }) => [id, payloads])).toEqual([
      ['a', ['v', 'w']],
      ['c', ['v', 'w']],
    ])
  })

  test('one that has only read, however long ago, holds up neither claim nor completion', async () => {
    const testQueue = await env.queue({ batchSize: 3 })
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a' })
    const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT * FROM lockstep.jobs, lockstep.payloads, lockstep.processes')
    const { rounds } = await claimer.claim()
    expect(rounds).toHaveLength(1)
    expect(await claimer.complete(...rounds)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('a producer is not held up by a handler: the row of a job in work is not locked', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a' })
    await claimer.take()
    const producer = await env.transaction(`BEGIN; SET LOCAL lock_timeout = '5s'`)
    await testQueue.pushIn(producer, { id: 'a', payload: 2 })
    await producer.query('COMMIT')
  })
})

describe('P7 what is dead, and can’t be removed while somebody may still see it', () => {
  test.each([
    [0, undefined],
    [3, undefined],
    [0, 5],
  ])(
    'is passed over by all statements, even where an ANALYZE has found %i alive (maxPayloads %s)',
    async (alive, maxPayloads) => {
      await env.query('DELETE FROM lockstep.jobs')
      await env.query('DELETE FROM lockstep.payloads')
      const testQueue = await env.queue({ batchSize: 25, maxPayloads })
      const claimer = await testQueue.claimer()
      await env.query('ALTER TABLE lockstep.jobs SET (autovacuum_enabled = off)')
      await env.query('ALTER TABLE lockstep.payloads SET (autovacuum_enabled = off)')
      await lockShared(await env.session(), 'lockstep', 'queues', [testQueue.queueId])
      const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await reader.query('SELECT FROM pg_class LIMIT 1')
      let cursor: Cursor = { after: null, afterId: '' }
      const work = async (name: string, end: (worker: Claimer, rounds: Round[]) => Promise<unknown>) => {
        const jobs = Array.from({ length: 500 }, (_, i) => ({ id: `${name}-${i}` }))
        // A new session plans again, and reports its reads to the statistics when it ends.
        const session = await env.session()
        await testQueue.pushOn(session, ...jobs, { ...jobs[0]!, payload: 'second' })
        // Every other job has a payload beside the one that its row carries.
        await testQueue.pushOn(
          session,
          ...jobs.map((job, index) => (index % 2 ? { ...job, payload: 'other' } : job)),
        )
        for (const job of jobs.slice(0, 50)) await testQueue.pushOn(session, job)
        const worker = claimer.on(session)
        for (let claims = 0; claims < 20; claims += 1) {
          const { rounds } = await worker.claim({ cursor })
          const last = rounds[24]!
          cursor = { after: last.performIn, afterId: last.id }
          await end(worker, rounds)
        }
        await session.end()
      }
      for (let dead = 0; dead < 10_000; dead += 500) {
        await work(`${dead}`, (worker, rounds) => worker.complete(...rounds))
      }
      for (let live = 0; live < alive; live += 1)
        await testQueue.push({ id: `live-${live}`, performIn: FUTURE })
      await env.query('ANALYZE lockstep.jobs, lockstep.payloads')
      const before = await entriesReadAtRest()
      await work('last', async (worker, [held, again, retry, death, ...rounds]) => {
        for (const round of rounds) expect(await worker.load({ ...round, toLoad: true })).toEqual(round)
        const producer = await env.transaction()
        await testQueue.pushIn(producer, { id: held!.id })
        expect(outcomes(await worker.complete(held!, ...rounds))).toEqual([`${held!.id} held`])
        await producer.query('ROLLBACK')
        await worker.complete(held!)
        await worker.release(again!)
        await worker.fail([retry!], 3_600)
        await worker.fail([death!], null)
      })
      let read = 0
      await until(async () => {
        read = (await entriesRead()) - before
        expect(read).toBeGreaterThan(500 * 3)
      })
      expect(read).toBeLessThan(500 * 20)
    },
    60_000,
  )
})

describe('P7 a claim rewrites no index', () => {
  test('no index of jobs or payloads names a column that a claim or its end changes', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a', payload: 'v', performIn: PAST })
    const states = [await columnsOf(testQueue.queueId)]
    const step = async (act: () => Promise<unknown>) => {
      await act()
      states.push(await columnsOf(testQueue.queueId))
    }
    await step(() => claimer.take())
    await step(() => testQueue.push({ id: 'a', payload: 'w', performIn: PAST }))
    await step(async () => claimer.release({ id: 'a', fence: Number(states.at(-1)!.fence) } as never))
    await env.expire(claimer.processId)
    const heir = await testQueue.claimer()
    await step(() => heir.take())

    const names = Object.keys(states[0]!)
    const changed = names.filter(
      (name) => new Set(states.map((state) => JSON.stringify(state[name]))).size > 1,
    )
    expect(changed).toEqual(expect.arrayContaining(['fence', 'claimed_by', 'claimed_at', 'next_perform_in']))
    // A failure changes these too.
    changed.push('crashes', 'error')
    // And this one, which has an index: but it also moves the job to another time, and that is in an index anyway.
    expect(changed).not.toContain('retry_count')

    const indexed = await indexedColumns('jobs')
    expect(indexed).toEqual(expect.arrayContaining(['queue_id', 'shard', 'lane', 'perform_in', 'id']))
    expect(indexed.filter((name) => changed.includes(name))).toEqual([])
  })

  test.each(['new', 'failed'])('claims of %s jobs are mostly HOT updates', async (which) => {
    const testQueue = await env.queue({ batchSize: 10 })
    const claimer = await testQueue.claimer()
    // An ANALYZE holds a snapshot, and rows which that can see are not pruned.
    await env.query('ALTER TABLE lockstep.jobs SET (autovacuum_enabled = off)')
    await env.query('ALTER TABLE lockstep.payloads SET (autovacuum_enabled = off)')
    const ids = Array.from({ length: 500 }, (_, i) => ({ id: `${i}` }))
    const prepare = async () => {
      await testQueue.push(...ids)
      if (which === 'new') return
      const before = await updates()
      const session = await env.session()
      await session.query('UPDATE lockstep.jobs SET retry_count = 1 WHERE queue_id = $1', [testQueue.queueId])
      await env.endSessions()
      await until(async () => expect((await updates()).all).toBeGreaterThanOrEqual(before.all + 500))
    }
    const work = async () => {
      const session = await env.session()
      for (let claims = 0; claims < ids.length / 10; claims += 1) {
        const { rounds } = await claimer.on(session).claim()
        expect(rounds).toHaveLength(10)
        await claimer.complete(...rounds)
      }
      // A session reports its statistics when it ends, if not before.
      await env.endSessions()
    }
    // Nor are rows pruned that any other transaction of the server may see, such as one of another test.
    let hot = 0
    for (let tries = 0; tries < 50 && hot <= 250; tries += 1) {
      await prepare()
      const before = await updates()
      await work()
      await until(async () => expect((await updates()).all).toBeGreaterThanOrEqual(before.all + 500))
      hot = (await updates()).hot - before.hot
    }
    expect(hot).toBeGreaterThan(250)
  })
})

async function columnsOf(queueId: number): Promise<Record<string, unknown>> {
  const [row] = await env.query<{ job: Record<string, unknown> }>(
    'SELECT to_jsonb(j) AS job FROM lockstep.jobs j WHERE queue_id = $1',
    [queueId],
  )
  return row!.job
}

/** Columns that are a key of an index of the table, are included in one, or occur in its expressions or its WHERE. */
async function indexedColumns(table: string): Promise<string[]> {
  const rows = await env.query<{ name: string }>(
    `SELECT DISTINCT a.attname AS name FROM pg_index i
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum > 0
     WHERE i.indrelid = ('lockstep.' || $1)::regclass AND (
       a.attnum = ANY (i.indkey::smallint[])
       OR coalesce(pg_get_expr(i.indpred, i.indrelid), '') ~ ('\\m' || a.attname || '\\M')
       OR coalesce(pg_get_expr(i.indexprs, i.indrelid), '') ~ ('\\m' || a.attname || '\\M')
     )`,
    [table],
  )
  return rows.map(({ name }) => name)
}

/** How many entries of the indexes of jobs and payloads statements have followed so far. */
async function entriesRead(): Promise<number> {
  const [row] = await env.query<{ read: number }>(
    `SELECT sum(idx_tup_read)::bigint AS read FROM pg_stat_user_indexes
     WHERE schemaname = 'lockstep' AND relname IN ('jobs', 'payloads')`,
  )
  return row!.read
}

/**
 * Waits until the reads of ended sessions are counted: before Postgres 15, a collector counts them some hundred ms
 * later.
 */
async function entriesReadAtRest(): Promise<number> {
  let last: number | undefined
  for (;;) {
    const read = await entriesRead()
    if (read === last) return read
    last = read
    await sleep(1_000)
  }
}

async function updates(): Promise<{ all: number; hot: number }> {
  const [row] = await env.query<{ all: number; hot: number }>(
    `SELECT n_tup_upd AS all, n_tup_hot_upd AS hot FROM pg_stat_user_tables
     WHERE schemaname = 'lockstep' AND relname = 'jobs'`,
  )
  return row!
}
