import { type EventEmitter, once } from 'node:events'
import { inspect } from 'node:util'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, type TestContext, vi } from 'vitest'
import {
  type Batch,
  defineQueue,
  Lockstep,
  type Logger,
  type PerformContext,
  type Queue,
  type QueueOptions,
  type TransactionalContext,
  type TransactionalQueueOptions,
  type Worker,
  type WorkerEvents,
  type WorkerOptions,
} from '../../src/index.ts'
import { createMigrated, type TestDatabase } from './database.ts'
import { Network } from './network.ts'
import { migrateTables } from './partitions.ts'

const DEADLINE = 15_000
/** How many of the last warnings are printed if a test fails. */
const MOST_WARNINGS = 40

/** A migrated database for the tests of one file. Each test has its own queues and workers. */
export class WorkerEnvironment {
  readonly warnings: { fields: object; message: string }[] = []
  readonly logger: Logger = {
    debug() {},
    info() {},
    warn: (fields, message) => void this.warnings.push({ fields, message }),
    error: (fields, message) => void this.warnings.push({ fields, message }),
  }
  lockstep!: Lockstep
  pool!: pg.Pool
  #database!: TestDatabase
  #workers: Worker[] = []
  #undo: (() => unknown)[] = []
  #queues = 0

  get connectionString(): string {
    return this.#database.connectionString
  }

  /** Runs after the test, in reverse order. */
  later(undo: () => unknown): void {
    this.#undo.push(undo)
  }

  queue<Tx>(options: QueueOptions<unknown> | TransactionalQueueOptions<unknown, Tx>): Queue {
    this.#queues += 1
    const defined = { retryIn: () => 0.02, ...options } as QueueOptions<unknown>
    return defineQueue(`queue ${this.#queues}`, defined)
  }

  transactional(options: Omit<TransactionalQueueOptions<unknown>, 'transactional'>): Queue {
    this.#queues += 1
    return defineQueue(`queue ${this.#queues}`, { retryIn: () => 0.02, ...options, transactional: true })
  }

  create(options: WorkerOptions, lockstep = this.lockstep): Worker {
    const worker = lockstep.createWorker({ slots: 2, shutdownTimeout: 100, ...options })
    this.#workers.push(worker)
    return worker
  }

  async work(options: WorkerOptions): Promise<Worker> {
    const worker = this.create(options)
    await worker.start()
    return worker
  }

  async sql<Row = Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.pool.query(text, values)).rows
  }

  /** The job's row, or undefined if it is gone. */
  async job(queue: Queue, id: string): Promise<JobRow | undefined> {
    const [row] = await this.sql<JobRow>(
      `SELECT j.*, extract(epoch FROM j.perform_in)::float8 * 1000 AS perform_ms
       FROM lockstep.jobs j JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 AND j.id = $2`,
      [queue.name, id],
    )
    return row
  }

  async jobs(queue: Queue): Promise<number> {
    const [row] = await this.sql<{ count: number }>(
      'SELECT count(*)::int AS count FROM lockstep.jobs JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1',
      [queue.name],
    )
    return row!.count
  }

  /** Whether a worker waits for wake-ups of the queue. */
  async flagged(queue: Queue): Promise<boolean> {
    const rows = await this.sql(
      `SELECT FROM pg_locks l JOIN lockstep.queues q ON l.objid = q.queue_id::oid
       WHERE l.locktype = 'advisory' AND l.classid = 'lockstep.queues'::regclass AND l.mode = 'ShareLock' AND q.name = $1
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      [queue.name],
    )
    return rows.length > 0
  }

  /** Resolves when a worker does. */
  async idle(queue: Queue): Promise<void> {
    await vi.waitUntil(() => this.flagged(queue), { timeout: DEADLINE, interval: 10 })
  }

  /** A session in which the test holds transactions open. */
  async session(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.connectionString })
    client.on('error', () => {})
    await client.connect()
    this.later(() => client.end().catch(() => {}))
    return client
  }

  /** A Lockstep on its own host, behind a network that may fail. */
  async distant(): Promise<{ network: Network; lockstep: Lockstep }> {
    const network = await Network.to(this.connectionString)
    const lockstep = new Lockstep({ connectionString: network.connectionString, logger: this.logger })
    this.later(() => lockstep.close())
    this.later(() => network.close())
    return { network, lockstep }
  }

  /** `isFilled`: the database has a schema already. */
  async open(database: TestDatabase, isFilled = false): Promise<void> {
    this.#database = database
    // A test may have the database end idle sessions, but not its own.
    const options = '-c idle_session_timeout=0'
    this.pool = new pg.Pool({ connectionString: this.connectionString, options, max: 5 })
    this.pool.on('error', () => {})
    this.lockstep = new Lockstep({ connectionString: this.connectionString, logger: this.logger })
    if (!isFilled) await migrateTables(this.lockstep, this.connectionString)
  }

  /** Runs after each test. */
  async clear({ task }: TestContext): Promise<void> {
    if (task.result?.state === 'fail') await this.#explain()
    await this.tidy()
  }

  /** Prints what may have made a test fail. */
  async #explain(): Promise<void> {
    const state = await Promise.all([
      this.sql(
        'SELECT queue_id, claimed_by, crashes, retry_count, count(*) FROM lockstep.jobs GROUP BY 1, 2, 3, 4',
      ),
      this.sql(
        'SELECT process_id, pid, expires_at - clock_timestamp() AS expires_in FROM lockstep.processes',
      ),
      this.sql(
        'SELECT pid, application_name, state, wait_event, left(query, 80) AS query FROM pg_stat_activity',
      ),
    ]).catch((error: Error) => error.message)
    console.error(
      inspect({ warnings: this.warnings.slice(-MOST_WARNINGS), state }, { depth: 4, breakLength: 160 }),
    )
  }

  async tidy(): Promise<void> {
    for (const undo of this.#undo.splice(0).reverse()) await undo()
    await Promise.all(this.#workers.splice(0).map((worker) => worker.stop()))
    this.warnings.length = 0
  }

  async close(): Promise<void> {
    await this.lockstep?.close()
    await this.pool?.end()
    await this.#database?.drop()
  }
}

export interface JobRow {
  shard: number
  retry_count: number
  crashes: number
  error: string | null
  claimed_by: number | null
  claimed_at: Date | null
  perform_in: Date
  perform_ms: number
}

/** Opens an environment for the tests of the calling file. */
export function useWorkers(): WorkerEnvironment {
  const env = new WorkerEnvironment()
  beforeAll(async () => env.open(await createMigrated(), true))
  afterEach((context) => env.clear(context))
  afterAll(() => env.close())
  return env
}

/** The next matching event. Call this before the event can happen. */
export function next<E extends keyof WorkerEvents>(
  worker: Worker,
  event: E,
  fits: (detail: WorkerEvents[E][0]) => boolean = () => true,
  deadline = DEADLINE,
): Promise<WorkerEvents[E][0]> {
  const events = worker as EventEmitter
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      events.off(event, hear)
    }
    const timer = setTimeout(() => {
      end()
      reject(new Error(`no "${event}" in ${deadline} ms`))
    }, deadline)
    const hear = (detail: WorkerEvents[E][0]) => {
      if (!fits(detail)) return
      end()
      resolve(detail)
    }
    events.on(event, hear)
  })
}

/** Resolves when the expectation holds. Slow machines get enough time. */
export function eventually<T>(expectation: () => T | Promise<T>, timeout = DEADLINE): Promise<T> {
  return vi.waitFor(expectation, { timeout, interval: 20 })
}

/** A gate that handlers wait at. */
export class Gate {
  #open!: () => void
  readonly opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  open(): void {
    this.#open()
  }
}

export type Perform = (batch: Batch<unknown>, context: PerformContext) => unknown
export type TransactionalPerform = (batch: Batch<unknown>, context: TransactionalContext) => unknown

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return signal.aborted ? Promise.resolve() : once(signal, 'abort')
}

/** Blocks the event loop for this many ms. */
export function block(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}
