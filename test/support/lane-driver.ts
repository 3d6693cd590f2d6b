import type pg from 'pg'
import type { Database } from '../../src/postgres/database.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import { exchange } from '../../src/store/exchange.ts'
import { survey } from '../../src/store/head.ts'
import { complete, release } from '../../src/store/settle.ts'
import { type Sifted, sift } from '../../src/store/sift.ts'
import type { Lane } from '../../src/worker/schedule/lane.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Withholding } from '../../src/worker/schedule/withheld.ts'
import { type TestQueue, through } from './store-environment.ts'

/** Jobs that a look sifts at most in one call. */
const MOST_SIFTED = 5_000

const now = () => Date.now() * 1_000

/** Lane 0 of a queue's only shard as a worker serves it: one step after the other, through one session, and when the test says so. */
export class LaneDriver {
  readonly lane: Lane
  readonly #testQueue: TestQueue
  readonly #processId: number
  readonly #session: pg.Client
  readonly #database: Database

  constructor(
    testQueue: TestQueue,
    processId: number,
    session: pg.Client,
    sizes?: ConstructorParameters<typeof Withholding>[0],
  ) {
    this.lane = new Shard(new ServedQueue(testQueue.queue, testQueue.queueId), 0).lane(0)
    if (sizes) Object.assign(this.lane, { withholding: new Withholding(sizes) })
    this.#testQueue = testQueue
    this.#processId = processId
    this.#session = session
    this.#database = through(session, testQueue.env.database)
  }

  async claim(count: number): Promise<Claim> {
    const { lane } = this
    lane.claimBegins(now())
    const { key, cursor, spots } = lane
    const { maxPayloads, maxBytes } = this.#testQueue.queue
    const wish = { key, cursor, spots, count, maxPayloads, maxBytes }
    const { claims } = await exchange(this.#database, this.#processId, [], [wish])
    lane.claimEnded(claims[0]!, now())
    return claims[0]!
  }

  async complete(rounds: readonly Round[]): Promise<void> {
    if (rounds.length > 0) await complete(this.#database, this.#holder, rounds)
    this.lane.withholding.free()
  }

  /** They wait again, and the lane is told when they are due. */
  async release(rounds: readonly Round[]): Promise<void> {
    if (rounds.length > 0) await release(this.#database, this.#holder, rounds)
    for (const { performIn } of rounds) this.lane.notice(performIn)
    this.lane.withholding.free()
  }

  /** A full look, with all that is to be sifted. */
  async look(): Promise<void> {
    const { queueId } = this.#testQueue
    const heads = await survey(this.#database, this.#processId, [{ queueId, shard: 0 }])
    for (const head of heads) this.lane.find(head.performIn)
    while (this.lane.region(1)) if (await this.#siftOn()) return
  }

  sift(): Promise<Sifted[]> {
    return sift(
      this.#database,
      this.#processId,
      [{ key: this.lane.key, ...this.lane.region(1)! }],
      MOST_SIFTED,
    )
  }

  /** What `act` returns, and the buffers of jobs that it reads. */
  async reading<T>(act: () => Promise<T>): Promise<{ result: T; buffers: number }> {
    const text = `SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid))::float8 AS blocks FROM pg_class c
      WHERE c.relnamespace = 'lockstep'::regnamespace AND c.relname IN ('jobs', 'jobs_pkey', 'jobs_due')`
    await this.#session.query('BEGIN')
    const before = await this.#session.query(text)
    const result = await act()
    const after = await this.#session.query(text)
    await this.#session.query('COMMIT')
    return { result, buffers: after.rows[0].blocks - before.rows[0].blocks }
  }

  /** Returns whether nothing is left. */
  async #siftOn(): Promise<boolean> {
    const { isLast, to } = this.lane.region(1)!
    const [part] = await this.sift()
    const rest = part!.to ?? (isLast ? undefined : to)
    this.lane.sifted(part!.found, rest)
    return rest === undefined
  }

  get #holder() {
    return { processId: this.#processId, queueId: this.#testQueue.queueId }
  }
}
