import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Lockstep } from '../../src/index.ts'
import { clusterQueues, FILLED } from './queues.ts'

/** What a producer process is told to be. Everything survives JSON. */
export interface ProducerOptions {
  /** Its ids are its own: nobody else pushes them. */
  readonly name: string
  readonly ids: number
  /** Through its network. */
  readonly connectionString: string
  /** Around it, to find out what became of a transaction whose end is unknown. */
  readonly directUrl: string
  /** Where acknowledged commits are written down. */
  readonly acks: string
  readonly isolation?: 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE'
  /** ms between transactions. */
  readonly pause: number
}

/** What was pushed, in one transaction with what tells of it. */
interface Push {
  readonly queue: (typeof FILLED)[number]
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
 * Pushes ascending numbers to its ids, the next of an id only when it is known what became of the one before: else
 * a commit that comes late would look like an inversion.
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

  /** Nothing of this producer is under way any more, and what it has pushed last is known. */
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

  /** Whether it was committed; throws where that is unknown, or it could not be. */
  async #store(client: pg.Client, { queue, jobs }: Push): Promise<boolean> {
    const { isolation = 'READ COMMITTED' } = this.#options
    // Whatever the default is: what a producer is told of is to be there after a crash.
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

  /** Ends the server's side of it too: cut off, that may not know yet, and commit later. */
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
