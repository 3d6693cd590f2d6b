import { once } from 'node:events'
import pg from 'pg'
import type { Bench, Case, Figures } from '../case.ts'
import { INSERT } from '../contenders/bare.ts'
import { BARE, standard } from '../entrants.ts'
import { costOf } from '../measure/cost.ts'
import { oneByOne } from '../measure/pace.ts'
import { percentilesOf } from '../measure/percentile.ts'
import { settle } from './work.ts'

const PER_INSERT = 1_000
const PER_CLAIM = 100
const SHARDS = 10
/** As in the functions of the queue. */
const SETTINGS =
  'SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off'

/** A commit has as many rows as a bulk push. */
const fillSql = (jobs: number) => `
  DO $$
  BEGIN
    FOR _from IN 0 .. ${jobs - 1} BY ${PER_INSERT} LOOP
      INSERT INTO lockstep.jobs (queue_id, shard, perform_in, id, fence, has_payloads, score, payload)
      SELECT 1, i % ${SHARDS}, clock_timestamp(), 'job:' || i, 0, false, i, jsonb_build_object('key', 'job', 'seq', i)
      FROM generate_series(_from, _from + ${PER_INSERT - 1}) i;
      COMMIT;
    END LOOP;
  END $$`

/** What a claim writes and reads, and what a completion deletes, each in its own commit. */
const processSql = (jobs: number) => `
  DO $$
  DECLARE
    _ids text[];
    _payloads jsonb[];
  BEGIN
    FOR _claim IN 0 .. ${Math.ceil(jobs / PER_CLAIM) - 1} LOOP
      WITH due AS (
        SELECT j.queue_id, j.id FROM lockstep.jobs j
        WHERE j.queue_id = 1 AND j.shard = _claim % ${SHARDS} AND j.lane = 0
        ORDER BY j.perform_in, j.id LIMIT ${PER_CLAIM}
      ), claimed AS (
        UPDATE lockstep.jobs j SET claimed_by = 1, claimed_at = clock_timestamp(), fence = 1
        FROM due d WHERE j.queue_id = d.queue_id AND j.id = d.id RETURNING j.id, j.payload
      )
      SELECT array_agg(c.id), array_agg(c.payload) INTO _ids, _payloads FROM claimed c;
      COMMIT;
      DELETE FROM lockstep.jobs j USING unnest(_ids) i WHERE j.queue_id = 1 AND j.id = i;
      COMMIT;
    END LOOP;
  END $$`

async function timed({ meters, size, setting }: Bench, sql: string): Promise<Figures> {
  const client = new pg.Client({ connectionString: setting.connectionString })
  await client.connect()
  // A DO that commits must be its own message.
  await client.query(SETTINGS)
  const before = await meters.read()
  const startedAt = performance.now()
  await client.query(sql)
  const seconds = (performance.now() - startedAt) / 1000
  const cost = costOf(before, await meters.read(), size.jobs)
  await client.end()
  return { value: size.jobs / seconds, cost }
}

async function processAll(bench: Bench): Promise<Figures> {
  const { pool, size } = bench
  await pool.query(fillSql(size.jobs))
  await settle(pool)
  const figures = await timed(bench, processSql(size.jobs))
  const { rows } = await pool.query('SELECT count(*)::integer AS undone FROM lockstep.jobs')
  return { ...figures, undone: rows[0].undone }
}

const NOTIFYING_INSERT = `WITH inserted AS (${INSERT}) SELECT pg_notify('floor', '')`

const CLAIM = `
  UPDATE lockstep.jobs SET claimed_by = 1, claimed_at = clock_timestamp(), fence = 1
  WHERE queue_id = 1 AND id = $1 RETURNING id, payload`

/** ms from an insert that notifies until a session that listens has claimed the row: two commits, and no queue. */
async function pickUp({ setting, size }: Bench): Promise<Figures> {
  const [producer, worker] = [1, 2].map(() => new pg.Client({ connectionString: setting.connectionString }))
  await Promise.all([producer!.connect(), worker!.connect()])
  await worker!.query('LISTEN floor')
  const latencies = await oneByOne(size.jobs, async (seq) => {
    const id = `job:${seq}`
    const told = once(worker!, 'notification')
    await Promise.all([
      producer!.query(NOTIFYING_INSERT, [0, id, seq, JSON.stringify({ key: 'job', seq })]),
      told.then(() => worker!.query(CLAIM, [id])),
    ])
    return performance.now()
  })
  await Promise.all([producer!.end(), worker!.end()])
  return percentilesOf(latencies)
}

const sizes = { full: { jobs: 100_000, patience: 60 }, quick: { jobs: 30_000, patience: 20 } }

/** What the rows and indexes of a queue cost by themselves: in one session and without a client, or at a pick-up. */
export const floorCases: readonly Case[] = [
  {
    name: 'floor-in',
    title: 'floor of enqueue: the rows inserted',
    unit: 'jobs/s',
    entrants: standard([BARE]),
    ...sizes,
    run: (bench) => timed(bench, fillSql(bench.size.jobs)),
  },
  {
    name: 'floor-out',
    title: 'floor of processing: the rows claimed, read and deleted',
    unit: 'jobs/s',
    entrants: standard([BARE]),
    ...sizes,
    run: processAll,
  },
  {
    name: 'floor-pick-up',
    title: 'floor of pick-up: a row inserted, told of and claimed',
    unit: 'ms',
    entrants: standard([BARE]),
    full: { jobs: 500, patience: 60 },
    quick: { jobs: 200, patience: 20 },
    run: pickUp,
  },
]
