import type pg from 'pg'
import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { createPool } from '../../src/postgres/pool.ts'
import type { Round } from '../../src/store/claim.ts'
import { Loading } from '../../src/worker/performing/loading.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import type { Claimant } from '../../src/worker/settling/claimant.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const round: Round = {
  ...{
    id: 'large',
    fence: 1,
    performIn: 0,
    retryCount: -1,
    crashes: 0,
    rescued: false,
    error: null,
    tenant: null,
  },
  ...{
    toLoad: true,
    payloads: [],
    scores: [],
    seqs: undefined,
    headers: undefined,
    expiries: undefined,
    expired: 0,
    size: 0,
    cut: undefined,
  },
}

/** Loads a large round over the pool. Resolves to what becomes of it, in order. */
async function load(pool: pg.Pool): Promise<string[]> {
  env.later(() => pool.end())
  const told: string[] = []
  const tell = (what: string) => async () => void told.push(what)
  const loading = new Loading({
    database: new Database(pool, 'lockstep', 2_000),
    completer: { release: tell('waits again'), settle: tell('failed') },
    logger: env.logger,
    describe: String,
    onFailure: tell('failure'),
    onLostAnswer: tell('answer lost'),
    onRefused: tell('refused'),
  } as never)
  const served = new ServedQueue(defineQueue('served', { perform() {} }), 1)
  const claimant = { served, processId: 1, release: tell('membership ends') } as unknown as Claimant
  expect(await loading.load(claimant, round, () => true)).toBeUndefined()
  return told
}

const NOT_SENT = ['failure', 'waits again', 'refused']

test('R10: a round whose load could not be sent waits again, and no crash is counted', async () => {
  const stranger = new URL(env.connectionString)
  stranger.username = 'nobody_of_that_name'
  expect(await load(createPool({ connectionString: stranger.href }, env.logger))).toEqual(NOT_SENT)

  expect(await load(createPool({ host: '/nowhere' }, env.logger))).toEqual(NOT_SENT)

  const crowded = createPool(
    { connectionString: env.connectionString, max: 1, connectionTimeoutMillis: 100 },
    env.logger,
  )
  const only = await crowded.connect()
  const told = await load(crowded).finally(() => only.release())
  expect(told).toEqual(NOT_SENT)
})

test('R10: one whose load was not answered is freed with its membership, which counts a crash', async () => {
  const pool = createPool({ connectionString: env.connectionString, max: 1 }, env.logger)
  const holder = await env.session()
  await holder.query('BEGIN; LOCK TABLE lockstep.jobs')
  env.later(() => holder.query('ROLLBACK'))
  const told = load(pool)
  await eventually(async () => {
    const ended = await env.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE wait_event = 'relation' AND datname = current_database()`,
    )
    expect(ended).toHaveLength(1)
  })
  expect(await told).toEqual(['failure', 'membership ends', 'answer lost'])
})

test('R6: one that the server refuses has failed', async () => {
  const pool = createPool(
    { connectionString: env.connectionString, options: '-c role=pg_monitor' },
    env.logger,
  )
  expect(await load(pool)).toEqual(['failure', 'failed'])
})
