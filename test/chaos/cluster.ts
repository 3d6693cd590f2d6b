import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { Lockstep } from '../../src/index.ts'
import { silentLogger } from '../../src/logger.ts'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { Child } from './child.ts'
import { Crew } from './crew.ts'
import { prepareGround } from './ground.ts'
import { writeState } from './log.ts'
import type { ProducerOptions } from './producer.ts'
import { clusterQueues, FILLED, type Filled, SHARDS } from './queues.ts'
import type { Scale } from './scale.ts'
import { readTruth, type Truth } from './truth.ts'
import type { WorkerOptions } from './worker.ts'

/** ms; short, so that faults longer than a lease are short too. */
export const LEASE = 2_000
const WORKER = new URL('./worker.ts', import.meta.url)
const PRODUCER = new URL('./producer.ts', import.meta.url)
const PROBES = 4 * SHARDS
const POLL = 20
const DEADLINE = 120_000
/** For the cluster's own sessions: what they report as committed must survive a crash, whatever the default is. */
const DURABLE = '-c synchronous_commit=on'

export interface ClusterOptions {
  readonly scale: Scale
  readonly workers: number
  readonly producers: number
  /** Ids of a producer in each queue. */
  readonly ids?: number
  /** ms between transactions of a producer. */
  readonly pause?: number
  /** The queues that the cluster itself pushes to. Default: all. */
  readonly filled?: readonly Filled[]
  /** Timing of the workers, if it differs from the cluster's. */
  readonly timing?: Partial<Pick<WorkerOptions, 'lease' | 'rebalanceInterval' | 'poll'>>
}

/** A place for faults: its own server, hosts with networks, and a record of what all processes did. */
export class Cluster {
  readonly server: EmbeddedServer
  /** Bypasses all networks. */
  readonly pool: pg.Pool
  readonly lockstep: Lockstep
  readonly queues = clusterQueues()
  readonly workers: Crew<WorkerOptions>
  readonly producers: Crew<ProducerOptions>
  /** When processes were stopped and continued, in ns. */
  readonly freezes = new Map<string, [bigint, bigint][]>()
  /** Ids that must end in the morgue. */
  readonly poisoned = new Set<string>()
  readonly scale: Scale
  /** Whether the server's notification queue can be filled. */
  smallNotifyQueue = false
  /** Every worker and producer process that ever ran. */
  readonly allWorkers: Child<WorkerOptions>[] = []
  readonly allProducers: Child<ProducerOptions>[] = []
  readonly #directory = mkdtempSync(join(tmpdir(), 'lockstep-cluster-'))
  readonly #filled: readonly Filled[]
  readonly #afterwards: (() => unknown)[] = []
  #names = 0
  #restarting: Promise<void> = Promise.resolve()

  private constructor(server: EmbeddedServer, options: ClusterOptions) {
    this.server = server
    this.scale = options.scale
    this.#filled = options.filled ?? FILLED
    this.pool = new pg.Pool({ connectionString: server.connectionString, options: DURABLE, max: 10 })
    this.pool.on('error', () => {})
    // The pool does not listen for errors of a client that is checked out.
    this.pool.on('connect', (client) => client.on('error', () => {}))
    this.lockstep = new Lockstep({ pool: this.pool, logger: silentLogger })
    this.workers = new Crew(server.connectionString, (url) => this.createWorker(url, options.timing))
    this.producers = new Crew(server.connectionString, (url, place) =>
      this.#createProducer(url, place, options),
    )
  }

  static async open(options: ClusterOptions): Promise<Cluster> {
    const server = await startEmbeddedPostgres({ settings: { fsync: 'off', max_connections: '800' } })
    const cluster = new Cluster(server, options)
    await prepareGround(cluster)
    await Promise.all([
      ...Array.from({ length: options.workers }, () => cluster.workers.join()),
      ...Array.from({ length: options.producers }, () => cluster.producers.join()),
    ])
    return cluster
  }

  get log(): string {
    return join(this.#directory, 'handlers.log')
  }

  get acks(): string {
    return join(this.#directory, 'acks.log')
  }

  async sql<Row = Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.pool.query(text, values)).rows
  }

  /** A worker process of the cluster, on any network; `module` may be that of another release. */
  createWorker(
    connectionString: string,
    options: Partial<WorkerOptions> = {},
    execArgv: readonly string[] = [],
    module = WORKER,
  ): Child<WorkerOptions> {
    const name = this.name('w')
    const all = { name, log: this.log, connectionString, lease: LEASE, ...options }
    const child = new Child<WorkerOptions>(name, module, all, execArgv)
    this.allWorkers.push(child)
    return child
  }

  createProducer(options: Pick<ProducerOptions, 'name' | 'connectionString'> & Partial<ProducerOptions>) {
    const { acks, server } = this
    const all = { ids: 20, pause: 20, acks, directUrl: server.connectionString, ...options }
    const child = new Child<ProducerOptions>(options.name, PRODUCER, all)
    this.allProducers.push(child)
    return child
  }

  /** A new name. */
  name(of: string): string {
    this.#names += 1
    return `${of}${this.#names}`
  }

  /** The id of a job that will kill its process. */
  poison(): string {
    const id = this.name('poison')
    this.poisoned.add(id)
    return id
  }

  /** A session that bypasses all networks. */
  async session(): Promise<pg.Client> {
    const { connectionString } = this.server
    const client = new pg.Client({ connectionString, options: DURABLE })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  noteFreeze(name: string, stoppedAt: bigint): void {
    const freezes = this.freezes.get(name) ?? []
    this.freezes.set(name, [...freezes, [stoppedAt, process.hrtime.bigint()]])
  }

  /** Restarts happen one after the other. */
  restartServer(shutdown: 'fast' | 'immediate'): Promise<void> {
    const restarted = this.#restarting.then(() => this.server.restart({ shutdown }))
    this.#restarting = restarted.catch(() => {})
    return restarted
  }

  /** Holds a snapshot for as long as the cluster exists, also when the server comes back after a restart. */
  holdSnapshot(): void {
    let holding = true
    const hold = async () => {
      while (holding) {
        const session = await this.patiently(() => this.session())
        const ended = new Promise((end) => session.once('end', end))
        // Reads none of our tables: its lock would make every migration wait.
        await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1').catch(() => {})
        release = () => session.end()
        await ended
      }
    }
    let release = (): unknown => undefined
    const held = hold()
    this.later(async () => {
      holding = false
      await release()
      await held
    })
  }

  /** Runs before the cluster is closed, in reverse order. */
  later(work: () => unknown): void {
    this.#afterwards.push(work)
  }

  /**
   * ms until jobs pushed now, in every shard of every queue, have been performed: how long it takes until everything
   * goes on.
   */
  async probe(): Promise<number> {
    const startedAt = performance.now()
    const ids = await this.patiently(() => this.#pushProbes())
    await this.until('the probes processed', async () => {
      const rows = await this.sql('SELECT id, shard FROM lockstep.jobs WHERE id = ANY ($1)', [ids])
      return rows.length === 0
    })
    return performance.now() - startedAt
  }

  /** Pushes the n-th payload to queues, for ids that no one else pushes, and records that. */
  async push(ids: readonly string[], n: number, queues = this.#filled): Promise<void> {
    const client = await this.pool.connect()
    try {
      await client.query('BEGIN')
      for (const queue of queues) await this.pushIn(client, queue, ids, n)
      await client.query('COMMIT')
      client.release()
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  async pushIn(
    tx: pg.ClientBase,
    queue: Filled,
    ids: readonly string[],
    n: number,
    load?: string,
  ): Promise<void> {
    await tx.query(
      `INSERT INTO sent (queue, id, n, at) SELECT $1::text, *, $3::bigint, $4::bigint FROM unnest($2::text[])`,
      [queue, ids, n, String(process.hrtime.bigint())],
    )
    const jobs = ids.map((id) => ({ id, payload: load === undefined ? n : { n, load }, score: n }))
    await this.lockstep.enqueue(this.queues[queue], jobs, { tx })
  }

  /** Tries again and again while the server is down. */
  async patiently<T>(work: () => Promise<T>): Promise<T> {
    const until = performance.now() + DEADLINE
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (performance.now() > until) throw error
        await pause()
      }
    }
  }

  /** Resolves when the condition holds. The condition may query a server that is down. */
  async until(what: string, holds: () => Promise<boolean>, deadline = DEADLINE): Promise<void> {
    const until = performance.now() + deadline
    while (!(await this.patiently(holds))) {
      if (performance.now() > until) {
        await writeState(this, join(this.#directory, 'state.json')).catch(() => {})
        throw new Error(`${what}: not after ${deadline} ms`)
      }
      await pause()
    }
  }

  /** Ends the producers, lets the workers perform the rest, and stops them. */
  async settle(): Promise<Truth> {
    for (const work of this.#afterwards.splice(0).reverse()) await work()
    for (const post of [...this.producers.posts]) await this.producers.leave(post, 'stop')
    await this.#drain()
    for (const post of [...this.workers.posts]) await this.workers.leave(post, 'stop')
    return readTruth(this)
  }

  /** Removes everything, except the logs if they are kept: then it returns their directory. */
  async close({ keepsLogs = false } = {}): Promise<string | undefined> {
    await Promise.all([this.producers.disband(), this.workers.disband()])
    await this.pool.end()
    await this.server.stop()
    if (keepsLogs) return this.#directory
    rmSync(this.#directory, { recursive: true, force: true })
    return undefined
  }

  /** Uses new ids in each try, since a try whose answer was lost may have been committed. */
  async #pushProbes(): Promise<string[]> {
    const name = this.name('probe')
    const ids = Array.from({ length: PROBES }, (_, index) => `${name}-${index}`)
    await this.push(ids, 1)
    return ids
  }

  async #drain(): Promise<void> {
    await this.until(
      'all jobs processed',
      async () => (await this.sql('SELECT FROM lockstep.jobs LIMIT 1')).length === 0,
    )
  }

  #createProducer(connectionString: string, place: number, { ids, pause }: ClusterOptions) {
    const rest = { ...(ids && { ids }), ...(pause && { pause }) }
    return this.createProducer({ name: `p${place}`, connectionString, ...rest })
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL))
}
