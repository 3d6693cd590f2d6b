import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Lockstep, type NewJob } from '../../../src/index.ts'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../../src/postgres/embedded.ts'
import { storedPayloads } from '../../support/stored-payloads.ts'
import { Child } from '../child.ts'
import { type Course, courseOf, type Sample, takeSample } from './figures.ts'
import { HOT, LARGE, loadQueues, ORDINARY_NAMES } from './queues.ts'
import type { LoadWorkerOptions, Usage } from './worker.ts'

/** Payloads of an ordinary job are as large as an order's summary. */
const ORDINARY_PAYLOAD = { note: 'x'.repeat(150) }
const BULK = 500
const HOT_PAYLOADS = 10_000
const LARGE_IDS = 5
const LARGE_BYTES = 1_000_000
/** ms between checks of what to push. */
const FEED = 200
/** ms between batches of hot and large payloads. */
const SPECIAL = 10_000
/** ms between samples. */
const SAMPLE = 5_000
/** Before everything that waits, which is due already, so that hot and large payloads are next. */
const LONG_DUE = new Date('2000-01-01')
const WORKER = new URL('./worker.ts', import.meta.url)

/** What an hour under load left of what was pushed, and how the figures went. */
export interface Endurance {
  readonly courses: readonly Course[]
  readonly pushed: number
  readonly done: number
  /** Rows of payloads at the end: must be exactly as many as were pushed and are not done. */
  readonly left: number
}

export function isWell({ courses, pushed, done, left }: Endurance): boolean {
  return left === pushed - done && !courses.some(({ grew }) => grew)
}

export interface LoadOptions {
  /** ms, from when all ids wait. */
  readonly duration: number
  /** Ids that wait all the time. */
  readonly waiting: number
  /** Receives a line each minute. */
  tell(line: string): void
}

/** Performs jobs while the number of waiting ids stays the same, and finds out what grows. */
export async function endure(options: LoadOptions): Promise<Endurance> {
  const load = await Load.open()
  try {
    return await load.run(options)
  } finally {
    await load.close()
  }
}

class Load {
  readonly #server: EmbeddedServer
  readonly #pool: pg.Pool
  readonly #lockstep: Lockstep
  readonly #queues = loadQueues()
  readonly #samples: Sample[] = []
  #worker: Child<LoadWorkerOptions> | undefined
  #usage: Usage | undefined
  #pushed = 0
  #ids = 0

  private constructor(server: EmbeddedServer) {
    this.#server = server
    this.#pool = new pg.Pool({ connectionString: server.connectionString })
    this.#lockstep = new Lockstep({ pool: this.#pool })
  }

  static async open(): Promise<Load> {
    const load = new Load(await startEmbeddedPostgres())
    await load.#lockstep.migrate()
    return load
  }

  async run({ duration, waiting, tell }: LoadOptions): Promise<Endurance> {
    await this.#fill(waiting)
    tell(`${this.#pushed} ids wait in ${this.#queues.size} queues`)
    await this.#startWorker()
    const until = performance.now() + duration
    await Promise.all([this.#feed(waiting, until), this.#feedSpecial(until), this.#sample(until, tell)])
    await this.#worker!.stop()
    const { rows } = await this.#pool.query<{ left: number }>(
      `SELECT count(*)::integer AS left FROM ${storedPayloads()} p`,
    )
    return {
      courses: courseOf(this.#samples),
      pushed: this.#pushed,
      done: this.#done(),
      left: rows[0]!.left,
    }
  }

  async close(): Promise<void> {
    if (this.#worker?.alive) await this.#worker.kill()
    await this.#pool.end()
    await this.#server.stop()
  }

  #done(): number {
    return Object.values(this.#usage?.done ?? {}).reduce((sum, count) => sum + count, 0)
  }

  async #fill(waiting: number): Promise<void> {
    const each = Math.ceil(waiting / ORDINARY_NAMES.length)
    for (const name of ORDINARY_NAMES) await this.#pushOrdinary(name, each)
  }

  async #startWorker(): Promise<void> {
    const { connectionString } = this.#server
    this.#worker = new Child<LoadWorkerOptions>('load', WORKER, { connectionString })
    this.#worker.hear<Usage>((message) => {
      if (message.event === 'usage') this.#usage = message
    })
    await this.#worker.ready()
    const shards = [...this.#queues.values()].reduce((sum, queue) => sum + queue.shards, 0)
    while (this.#usage?.shards !== shards) await sleep(FEED)
  }

  /** Keeps the number of waiting ids constant. */
  async #feed(waiting: number, until: number): Promise<void> {
    for (let turn = 0; performance.now() < until; await sleep(FEED)) {
      while (this.#pushed - this.#done() < waiting) {
        await this.#pushOrdinary(ORDINARY_NAMES[turn % ORDINARY_NAMES.length]!, BULK)
        turn += 1
      }
    }
  }

  /** Pushes ten thousand payloads of one id, and a few of a megabyte, each time when the last ones are done. */
  async #feedSpecial(until: number): Promise<void> {
    for (let times = 1; performance.now() < until; times += 1) {
      const hot = Array.from({ length: HOT_PAYLOADS }, (_, n) => ({ id: 'it', payload: n, score: n }))
      const large = Array.from({ length: LARGE_IDS }, (_, n) => ({ id: `${n}`, payload: incompressible() }))
      await this.#push(HOT, hot)
      await this.#push(LARGE, large)
      while (performance.now() < until && !this.#areDone(times)) await sleep(FEED)
      await sleep(Math.max(0, Math.min(SPECIAL, until - performance.now())))
    }
  }

  #areDone(times: number): boolean {
    const { [HOT]: hot = 0, [LARGE]: large = 0 } = this.#usage?.done ?? {}
    return hot === times * HOT_PAYLOADS && large === times * LARGE_IDS
  }

  async #sample(until: number, tell: (line: string) => void): Promise<void> {
    let before = this.#done()
    for (let turn = 0; performance.now() < until; turn += 1) {
      await sleep(SAMPLE)
      const done = this.#done()
      this.#samples.push(await takeSample(this.#pool, this.#usage!, (done - before) / (SAMPLE / 1000)))
      before = done
      if (turn % (60_000 / SAMPLE) === 0) tell(lineOf(this.#samples.at(-1)!, until - performance.now()))
    }
  }

  #pushOrdinary(queue: string, count: number): Promise<void> {
    const jobs = Array.from({ length: count }, () => {
      this.#ids += 1
      return { id: `order-${this.#ids}`, payload: ORDINARY_PAYLOAD }
    })
    return this.#push(queue, jobs)
  }

  async #push(queue: string, jobs: NewJob[]): Promise<void> {
    const due = queue === HOT || queue === LARGE ? { performIn: LONG_DUE } : {}
    await this.#lockstep.enqueue(
      this.#queues.get(queue)!,
      jobs.map((job) => ({ ...job, ...due })),
    )
    this.#pushed += jobs.length
  }
}

function incompressible(): string {
  return randomBytes(LARGE_BYTES / 2).toString('hex')
}

function lineOf(sample: Sample, left: number): string {
  const mb = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MB`
  return [
    `${Math.round(left / 60_000)} min left`,
    `${Math.round(sample.rate)}/s`,
    `RSS ${mb(sample.rss)}`,
    `jobs ${mb(sample.jobs)} + ${mb(sample.jobsIndexes)}`,
    `payloads ${mb(sample.payloads)} + ${mb(sample.payloadsIndexes)}`,
    `${sample.advisory} advisory locks`,
    `${sample.dead} dead rows`,
  ].join(', ')
}
