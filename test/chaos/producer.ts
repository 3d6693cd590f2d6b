import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Lockstep } from '../../src/index.ts'
import { clusterQueues, FILLED, type Filled } from './queues.ts'

/** The options of a producer process. All of them survive JSON. */
export interface ProducerOptions {
  /** Its ids are its own: no one else pushes them. */
  readonly name: string
  readonly ids: number
  /** Through the producer's network. */
  readonly connectionString: string
  /** Bypasses the network, to find out how a transaction ended whose end is unknown. */
  readonly directUrl: string
  /** The file for acknowledged commits. */
  readonly acks: string
  readonly isolation?: 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE'
  /** ms between transactions. */
  readonly pause: number
}

/** A push, stored in one transaction with the record of it. */
interface Push {
  readonly queue: Filled
  readonly jobs: { id: string; n: number }[]
}

const LARGEST = 6
const ROLLED_BACK = 0.03
const TIMEOUT = 5_000
const RETRY_PAUSE = 100

process.once('message', (options) => void produce(options as ProducerOptions))
process.on('disconnect', () => process.exit())

async function produce(options: ProducerOptions): Promise<void> {
  const producer = new Producer(options)
  let ending = false
  process.on('message', (message) => {
    if (message === 'stop') ending = true
  })
  await producer.resolve()
  process.send!({ event: 'ready' })
  while (!ending) {
    await producer.push()
    await sleep(Math.random() * 2 * options.pause)
  }
  process.disconnect()
}

/**
 * Pushes ascending numbers to its ids. It pushes the next number of an id only when the outcome of the last one is
 * known: otherwise a commit that comes late would look like an inversion.
 */
class Producer {
  readonly #options: ProducerOptions
  readonly #queues = clusterQueues()
  readonly #lockstep: Lockstep
  readonly #direct: pg.Pool
  #last = new Map<string, number>()
  #client: pg.Client | undefined
  #sessions = 0

  constructor(options: ProducerOptions) {
    this.#options = options
    this.#direct = new pg.Pool({ connectionString: options.directUrl, max: 1 })
    this.#direct.on('error', () => {})
    this.#lockstep = new Lockstep({ pool: this.#direct })
  }

  async push(): Promise<void> {
    const push = this.#choose()
    try {
      this.#client ??= await this.#connect()
      if (await this.#store(this.#client, push)) this.#acknowledge(push)
    } catch {
      await this.resolve()
    }
  }

  /** Resolves when nothing of this producer is under way any more, and its last pushes are known. */
  async resolve(): Promise<void> {
    for (;;) {
      try {
        await this.#abandon()
        for (const { queue, id, n } of await this.#readLast()) this.#last.set(`${queue} ${id}`, Number(n))
        return
      } catch {
        await sleep(RETRY_PAUSE)
      }
    }
  }

  #choose(): Push {
    const { name, ids } = this.#options
    const queue = FILLED[Math.floor(Math.random() * FILLED.length)]!
    const chosen = new Set<string>()
    const count = 1 + Math.floor(Math.random() * LARGEST)
    while (chosen.size < Math.min(count, ids)) chosen.add(`${name}-${Math.floor(Math.random() * ids)}`)
    const jobs = [...chosen].map((id) => {
      const n = (this.#last.get(`${queue} ${id}`) ?? 0) + 1
      this.#last.set(`${queue} ${id}`, n)
      return { id, n }
    })
    return { queue, jobs }
  }

  /** Whether it was committed; throws if that is unknown, or if it failed. */
  async #store(client: pg.Client, { queue, jobs }: Push): Promise<boolean> {
    const { isolation = 'READ COMMITTED' } = this.#options
    // Whatever the default is, what a producer is told is committed must survive a crash.
    await client.query(`BEGIN ISOLATION LEVEL ${isolation}; SET LOCAL synchronous_commit = on`)
    await client.query(
      'INSERT INTO sent (queue, id, n, at) SELECT $1::text, *, $4::bigint FROM unnest($2::text[], $3::bigint[])',
      [queue, jobs.map(({ id }) => id), jobs.map(({ n }) => n), String(process.hrtime.bigint())],
    )
    const rows = jobs.map(({ id, n }) => ({ id, payload: n, score: n }))
    await this.#lockstep.enqueue(this.#queues[queue], rows, { tx: client })
    const commits = Math.random() >= ROLLED_BACK
    await client.query(commits ? 'COMMIT' : 'ROLLBACK')
    return commits
  }

  #acknowledge({ queue, jobs }: Push): void {
    appendFileSync(this.#options.acks, `${JSON.stringify([queue, jobs.map(({ id, n }) => [id, n])])}\n`)
  }

  async #connect(): Promise<pg.Client> {
    this.#sessions += 1
    const client = new pg.Client({
      connectionString: this.#options.connectionString,
      application_name: `${this.#options.name} ${this.#sessions}`,
      connectionTimeoutMillis: TIMEOUT,
      query_timeout: TIMEOUT,
    })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  /** Ends the session at the server too: after a cut, the server may not know that it has ended, and commit later. */
  async #abandon(): Promise<void> {
    this.#client?.end().catch(() => {})
    this.#client = undefined
    const ours = `application_name LIKE $1 || ' %'`
    for (;;) {
      const { rowCount } = await this.#direct.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${ours}`,
        [this.#options.name],
      )
      if (rowCount === 0) return
      await sleep(10)
    }
  }

  async #readLast(): Promise<{ queue: string; id: string; n: string }[]> {
    const { rows } = await this.#direct.query(
      `SELECT queue, id, max(n) AS n FROM sent WHERE id LIKE $1 || '-%' GROUP BY queue, id`,
      [this.#options.name],
    )
    return rows
  }
}
