import pg from 'pg'
import { expect, vi } from 'vitest'
import type { ClientMiddleware } from '../../src/enqueue/middleware.ts'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { Database } from '../../src/postgres/database.ts'
import { defineQueue, type Queue } from '../../src/queue.ts'
import type { QueueOptions } from '../../src/queue-options.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import { exchange } from '../../src/store/exchange.ts'
import { loadPayloads } from '../../src/store/load.ts'
import { lookAtProcesses, registerProcess, removeSilent } from '../../src/store/process.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { answer, complete, crash, discard, fail, type Leftover, release } from '../../src/store/settle.ts'
import { createDatabase, createMigrated } from './database.ts'
import { migrateTables, type TableLayout } from './partitions.ts'
import { storedPayloads } from './stored-payloads.ts'

/** The most ms that something may take that should happen at once. */
const DEADLINE = 10_000

/** A migrated database of one test file, for calls of the store without a worker. */
export class StoreEnvironment {
  readonly connectionString: string
  readonly lockstep: Lockstep
  readonly database: Database
  readonly #drop: () => Promise<void>
  readonly #sessions: pg.Client[] = []
  #queues = 0

  constructor(connectionString: string, schema: string, drop: () => Promise<void>) {
    this.connectionString = connectionString
    this.lockstep = new Lockstep({ connectionString, schema })
    this.database = new Database(poolOn(connectionString), schema)
    this.#drop = drop
  }

  async close(): Promise<void> {
    await this.endSessions()
    await this.lockstep.close()
    await this.database.pool.end()
    await this.#drop()
  }

  /** Another application on this environment's pool. */
  lockstepAnew(...middleware: ClientMiddleware[]): Lockstep {
    return new Lockstep({ pool: this.database.pool, schema: this.database.schema, middleware })
  }

  /** A new queue, with one shard by default. */
  async queue(options: QueueOptions<unknown> = {}): Promise<TestQueue> {
    this.#queues += 1
    const queue = defineQueue(`queue ${this.#queues}`, { shards: 1, ...options })
    return new TestQueue(this, queue, await ensureQueue(this.database, queue.name, queue.shards))
  }

  /** A new session; `endSessions` rolls back what it has open. */
  async session(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.connectionString })
    client.on('error', () => {})
    await client.connect()
    this.#sessions.push(client)
    return client
  }

  /** A session in the middle of a transaction. */
  async transaction(begin = 'BEGIN'): Promise<pg.Client> {
    const client = await this.session()
    await client.query(begin)
    return client
  }

  async endSessions(): Promise<void> {
    await Promise.all(this.#sessions.splice(0).map((client) => client.end()))
  }

  /** A worker process as the database sees it. */
  async process(lease = 60_000): Promise<number> {
    const info = { host: 'here', pid: 1, version: '0', slots: 1, queues: [] }
    return registerProcess(this.database.pool, this.database.schema, info, lease)
  }

  /** Removes the process, like an observer that has not heard of it for its lease. */
  async expire(processId: number): Promise<void> {
    const sights = await lookAtProcesses(this.database)
    await removeSilent(
      this.database,
      sights.filter((one) => one.processId === processId),
    )
  }

  query<Row = Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return this.database.query<Row>(text, values)
  }
}

/** `layout`: that of the run by default. */
export async function openStore(layout?: TableLayout): Promise<StoreEnvironment> {
  const { connectionString, drop } = await (layout ? createDatabase() : createMigrated())
  const env = new StoreEnvironment(connectionString, 'lockstep', drop)
  if (layout) await migrateTables(env.lockstep, connectionString, layout)
  return env
}

export function poolOn(connectionString: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString, ...options })
  pool.on('error', () => {})
  return pool
}

/** A job's row, with times in ms since 1970. */
export interface JobRow {
  readonly id: string
  readonly shard: number
  readonly lane: number
  readonly fence: number
  readonly retry_count: number
  readonly crashes: number
  readonly error: string | null
  readonly claimed_by: number | null
  readonly performIn: number
  readonly nextPerformIn: number | null
}

/** One queue: pushes into it, and claims from it step by step. */
export class TestQueue {
  readonly env: StoreEnvironment
  readonly queue: Queue
  readonly queueId: number

  constructor(env: StoreEnvironment, queue: Queue, queueId: number) {
    this.env = env
    this.queue = queue
    this.queueId = queueId
  }

  push(...jobs: NewJob[]): Promise<number> {
    return this.env.lockstep.enqueue(this.queue, jobs)
  }

  /** Pushes in a transaction that the test commits or rolls back. */
  pushIn(tx: pg.Client, ...jobs: NewJob[]): Promise<number> {
    return this.env.lockstep.enqueue(this.queue, jobs, { tx })
  }

  /** Pushes through this session, in its own transaction. */
  async pushOn(session: pg.Client, ...jobs: NewJob[]): Promise<void> {
    await session.query('BEGIN')
    await this.pushIn(session, ...jobs)
    await session.query('COMMIT')
  }

  async claimer(lease?: number): Promise<Claimer> {
    return new Claimer(this, await this.env.process(lease), this.env.database)
  }

  /** The id's row, which must exist. */
  async job(id: string): Promise<JobRow> {
    const row = await this.findJob(id)
    if (!row) throw new Error(`no job ${id}`)
    return row
  }

  async findJob(id: string): Promise<JobRow | undefined> {
    const [row] = await this.env.query<JobRow>(
      `SELECT *, extract(epoch FROM perform_in)::float8 * 1000 AS "performIn",
         extract(epoch FROM next_perform_in)::float8 * 1000 AS "nextPerformIn"
       FROM ${this.env.database.prefix}.jobs WHERE queue_id = $1 AND id = $2`,
      [this.queueId, id],
    )
    return row
  }

  /** `v1[1]` for each waiting payload of an id, in the order in which a handler will get them. */
  async set(id: string): Promise<string[]> {
    const [row] = await this.env.query<{ payloads: { payload: unknown; score: number }[] | null }>(
      `SELECT payloads FROM ${this.env.database.prefix}.waiting WHERE queue = $1 AND id = $2`,
      [this.queue.name, id],
    )
    return (row?.payloads ?? []).map(({ payload, score }) => `${payload}[${score}]`)
  }

  /** The dead payloads of an id, with their errors. */
  dead(id: string): Promise<{ payload: unknown; score: number; error: string | null }[]> {
    return this.env.query(
      `SELECT payload, score, error FROM ${this.env.database.prefix}.dead
       WHERE queue = $1 AND id = $2 ORDER BY died_at, score`,
      [this.queue.name, id],
    )
  }

  /** Counts stored payloads of an id, or of the whole queue. */
  async countPayloads(id?: string): Promise<number> {
    const [row] = await this.env.query<{ count: number }>(
      `SELECT count(*) FROM ${storedPayloads(this.env.database.prefix)} p
       WHERE queue_id = $1 AND ($2::text IS NULL OR job_id = $2)`,
      [this.queueId, id ?? null],
    )
    return row!.count
  }

  /** Lets payloads of an id, or all of them, have expired a while ago, if they ever would. */
  async letExpire(id: string, payload?: unknown): Promise<void> {
    for (const [table, column] of [
      ['jobs', 'id'],
      ['payloads', 'job_id'],
    ])
      await this.env.query(
        `UPDATE ${this.env.database.prefix}.${table} SET expires_in = clock_timestamp() - interval '1 minute'
         WHERE queue_id = $1 AND ${column} = $2 AND expires_in IS NOT NULL AND ($3::jsonb IS NULL OR payload = $3::jsonb)`,
        [this.queueId, id, payload === undefined ? null : JSON.stringify(payload)],
      )
  }

  async countJobs(): Promise<number> {
    const [row] = await this.env.query<{ count: number }>(
      `SELECT count(*) FROM ${this.env.database.prefix}.jobs WHERE queue_id = $1`,
      [this.queueId],
    )
    return row!.count
  }
}

const BEGINNING = { after: null, afterId: '' }

interface ClaimOptions {
  readonly shard?: number
  readonly lane?: number
  readonly batchSize?: number
  readonly cursor?: { after: number | null; afterId: string }
}

/** The same schema, through this session only. */
export function through(session: pg.Client, { schema }: Database): Database {
  const connection = { query: session.query.bind(session), on() {}, off() {}, release() {} }
  return new Database({ connect: async () => connection } as unknown as pg.Pool, schema)
}

/** A process that serves a queue: it claims rounds and ends them. Each step is the store's own call. */
export class Claimer {
  readonly testQueue: TestQueue
  readonly processId: number
  readonly database: Database

  constructor(testQueue: TestQueue, processId: number, database: Database) {
    this.testQueue = testQueue
    this.processId = processId
    this.database = database
  }

  /** The same process through this session. */
  on(session: pg.Client): Claimer {
    return new Claimer(this.testQueue, this.processId, through(session, this.database))
  }

  async claim(options: ClaimOptions = {}): Promise<Claim> {
    const { queueId, queue } = this.testQueue
    const { shard = 0, lane = 0, batchSize = queue.batchSize, cursor = BEGINNING } = options
    const key = { queueId, shard, lane }
    const { maxPayloads, maxBytes } = queue
    const wish = { key, cursor, count: batchSize, maxPayloads, maxBytes }
    const { claims } = await exchange(this.database, this.processId, [], [wish])
    return claims[0]!
  }

  /**
   * Does what a worker does before a round whose payloads did not come with its claim. Undefined if the claim is lost.
   */
  async load(round: Round): Promise<Round | undefined> {
    const { queueId, queue } = this.testQueue
    return round.toLoad ? loadPayloads(this.database, this.processId, queueId, round, queue) : round
  }

  /** Claims the one job that must be due. */
  async take(): Promise<Round> {
    const { rounds } = await this.claim({ batchSize: 1 })
    expect(rounds).toHaveLength(1)
    return (await this.load(rounds[0]!))!
  }

  complete(...rounds: Round[]): Promise<Leftover[]> {
    return complete(this.database, this.#holder(), rounds)
  }

  /** Completes rounds with what they have returned. */
  answer(results: readonly { readonly round: Round; readonly json: string }[]): Promise<Leftover[]> {
    const rounds = results.map(({ round, json }) => ({ ...round, kept: { json, seconds: 60 } }))
    return answer(this.database, this.#holder(), rounds)
  }

  /** Completes like a transactional handler, waiting for producers that hold a row. */
  completeIn(tx: pg.Client, ...rounds: Round[]): Promise<Leftover[]> {
    return complete(this.database, { ...this.#holder(), tx }, rounds)
  }

  /**
   * Fails rounds; `retryIn` is in seconds until the next try, and null lets the lowest payload die. Without an error they only
   * wait.
   */
  fail(rounds: Round[], retryIn: number | null = 0, error: string | null = 'failed'): Promise<Leftover[]> {
    const end = error === null ? 'snooze' : retryIn === null ? 'die' : 'fail'
    return fail(
      this.database,
      this.#holder(),
      rounds.map((round) => ({ round, end, retryIn, error })),
    )
  }

  /** Buries all payloads of rounds. */
  discard(...rounds: Round[]): Promise<Leftover[]> {
    return this.discardIn(undefined, ...rounds)
  }

  /** The same, waiting for producers that hold a row. */
  discardIn(tx: pg.Client | undefined, ...rounds: Round[]): Promise<Leftover[]> {
    return discard(
      this.database,
      { ...this.#holder(), tx },
      rounds.map((round) => ({ round, end: 'discard', retryIn: null, error: 'discarded' })),
    )
  }

  release(...rounds: Round[]): Promise<Leftover[]> {
    return release(this.database, this.#holder(), rounds)
  }

  /** Releases rounds of which it is unknown how they ended. */
  crash(...rounds: Round[]): Promise<Leftover[]> {
    return crash(this.database, this.#holder(), rounds)
  }

  #holder() {
    return { processId: this.processId, queueId: this.testQueue.queueId }
  }
}

/** Rounds as `id: v1[1] v2[2]`. */
export function shown(rounds: readonly Round[]): string[] {
  return rounds.map(
    ({ id, payloads, scores }) => `${id}: ${payloads.map((one, i) => `${one}[${scores[i]}]`).join(' ')}`,
  )
}

/** `id outcome` of each exception. */
export function outcomes(leftovers: readonly Leftover[]): string[] {
  return leftovers.map(({ id, outcome }) => `${id} ${outcome}`).sort()
}

/** The server's process id of a session, which must be idle. */
export async function pidOf(session: pg.Client): Promise<number> {
  const { rows } = await session.query('SELECT pg_backend_pid() AS pid')
  return rows[0].pid
}

/** Resolves once the session's statement waits for another session's lock. */
export async function untilBlocked(env: StoreEnvironment, pid: number): Promise<void> {
  await until(async () => {
    const [row] = await env.query<{ waits: boolean }>(
      `SELECT state = 'active' AND cardinality(pg_blocking_pids(pid)) > 0 AS waits
       FROM pg_stat_activity WHERE pid = $1`,
      [pid],
    )
    expect(row?.waits).toBe(true)
  })
}

/** Tries an expectation until it holds, or until the deadline has passed. */
export function until(expectation: () => Promise<void> | void): Promise<void> {
  return vi.waitFor(expectation, { timeout: DEADLINE, interval: 10 })
}
