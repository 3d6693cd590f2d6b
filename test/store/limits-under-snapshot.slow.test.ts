import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const LONG = { jobs: 1_000_000, per: 86_400 }
/** Jobs before the first look; claims of one process after it, and how many jobs each takes. */
const [FIRST, CLAIMS, BATCH] = [2_000, 6_000, 3]
/** Buffers that a claim may read more than at first: what lies between two checkpoints, and deeper indexes. */
const CONSTANT = 60

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore('plain')
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

async function limited(limits: Limits): Promise<TestQueue> {
  const testQueue = await env.queue({ limits })
  await limit(testQueue, limits)
  return testQueue
}

/** So many jobs of one tenant, due in this order. */
const push = ({ queueId }: TestQueue, from: number, count: number) =>
  env.query(
    `INSERT INTO lockstep.jobs (queue_id, id, shard, lane, perform_in, retry_count, fence, tenant, payload, score)
     SELECT $1, 'id-' || n, 0, 0, to_timestamp($2) + n * interval '1 ms', -1, 0, 't', '1', 1
     FROM generate_series($3::integer, $3 + $4 - 1) n`,
    [queueId, PAST / 1_000, from, count],
  )

const claimText = (processId: number, queueId: number, batch: number, after: string) =>
  `lockstep.claim(${processId}, '{${queueId}}', '{0}', '{0}', '{${batch}}', '{NULL}', '{1000000}', ${after}, 1000000)`

/** Claims and completes all jobs of the queue, from the first on, each claim in a transaction of its own. */
const perform = (session: pg.Client, { queueId }: TestQueue, processId: number, from: number) =>
  session.query(`DO $$
DECLARE
  _after bigint := ${(PAST + from) * 1_000} - 1;
  _after_id text := '';
  _ids text[];
  _fences bigint[];
BEGIN
  LOOP
    SELECT array_agg(c.id), array_agg(c.fence), max(c.perform_in), (array_agg(c.id ORDER BY c.perform_in DESC))[1]
    INTO _ids, _fences, _after, _after_id
    FROM ${claimText(processId, queueId, BATCH, 'ARRAY[_after], ARRAY[_after_id]')} c WHERE c.id IS NOT NULL;
    EXIT WHEN _ids IS NULL;
    COMMIT;
    PERFORM lockstep.complete(array_fill(${queueId}, ARRAY[cardinality(_ids)]), ${processId}, _ids, _fences, NULL, NULL, false);
    COMMIT;
  END LOOP;
END $$`)

/** How many buffers a claim reads that takes the job `place`, as one of a session that has claimed before. */
async function buffers(
  session: pg.Client,
  { queueId }: TestQueue,
  processId: number,
  place: number,
): Promise<number> {
  const cursor = `ARRAY[${(PAST + place) * 1_000 - 1}], ARRAY['']`
  const claim = `SELECT * FROM ${claimText(processId, queueId, 1, cursor)}`
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < 3; n += 1) {
    await session.query('BEGIN')
    const { rows } = await session.query(`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${claim}`)
    await session.query('ROLLBACK')
    const plan = rows[0]['QUERY PLAN'][0].Plan
    least = Math.min(least, plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
  }
  return least
}

/** Sets other limits. */
const limit = ({ queueId }: TestQueue, value: Limits) =>
  replaceSetting(env.database, 'limits', [{ queueId, value }])

/** A queue of which a snapshot is held, and what a claim of it reads at first, and after thousands of rounds. */
async function course(limits: Limits, { held = 0, at = limits }: { held?: number; at?: Limits } = {}) {
  const testQueue = await limited(limits)
  const processId = await env.process()
  const holder = await testQueue.claimer()
  await push(testQueue, 0, FIRST)
  if (held > 0) await holder.claim({ batchSize: held })
  const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await reader.query('SELECT')
  const session = await env.session()
  const read = async (place: number) => {
    // The planner takes the tables for nearly empty, and a new session plans anew.
    await env.query('ANALYZE lockstep.jobs, lockstep.holds, lockstep.starts, lockstep.turns')
    await push(testQueue, place, 1)
    await limit(testQueue, at)
    const count = await buffers(await env.session(), testQueue, processId, place)
    await limit(testQueue, limits)
    return count
  }
  await perform(session, testQueue, processId, held)
  const before = await read(FIRST)
  await push(testQueue, FIRST + 1, CLAIMS * BATCH)
  await perform(session, testQueue, processId, FIRST)
  return { before, after: await read(9_000_000) }
}

describe('P7 while an old snapshot is held, a claim reads as much after thousands of rounds as at first', () => {
  test.each<[string, Limits, { held?: number; at?: Limits }?]>([
    ['concurrency', { concurrency: 20 }],
    ['concurrency of tenants', { tenant: { concurrency: 20 } }],
    ['concurrency, while some are held for long', { concurrency: 20 }, { held: 9 }],
    ['a rate', { rate: LONG }],
    ['a rate of tenants', { tenant: { rate: LONG } }],
    ['a rate of a short time', { rate: { jobs: 1_000_000, per: 1 } }],
    ['a rate that is reached', { rate: LONG }, { at: { rate: { ...LONG, jobs: 9 } } }],
  ])(
    '%s',
    async (_, limits, how) => {
      const { before, after } = await course(limits, how)
      expect(after).toBeLessThan(before + CONSTANT)
    },
    120_000,
  )

  test('and after processes have waited for places for long', async () => {
    const testQueue = await limited({ concurrency: 20 })
    const processId = await env.process()
    const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT')
    const session = await env.session()
    await push(testQueue, 0, 1)
    const before = await buffers(session, testQueue, processId, 0)
    // As two processes leave them that ask every 50 ms.
    await env.query(
      `INSERT INTO lockstep.turns (queue_id, tenant, process_id, shard, lane, perform_in, since, seen_at)
       SELECT $1, '', p, 0, 0, clock_timestamp(), clock_timestamp(), clock_timestamp() - n * interval '50 ms'
       FROM generate_series(20, 20000) n, generate_series(1, 2) p`,
      [testQueue.queueId],
    )
    await env.query('DELETE FROM lockstep.turns WHERE queue_id = $1', [testQueue.queueId])
    expect(await buffers(session, testQueue, processId, 0)).toBeLessThan(before + CONSTANT)
  })
})
