import type pg from 'pg'
import type { Round } from '../../src/store/claim.ts'
import { actOnWaiting } from '../../src/store/jobs.ts'
import { push as store } from '../../src/store/push.ts'
import { setShards } from '../../src/store/queue.ts'
import { Claimer, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

/** The job that every scene is about. */
export const ID = 'a'
/** Long ago, so that it is always due. */
export const PAST = 1_536_323_288_000
/** ms. */
export const HOUR = 3_600_000
/** ms; longer than any test, even one in which hours pass. */
const LEASE = 100 * HOUR

/** The state of the job before any operation begins. */
export interface Setting {
  readonly name: string
  /** Its payload is v[1]. `left`: claimed by a process that was removed. */
  readonly job?: 'waiting' | 'in work' | 'left'
  /** The process that has the job in progress exists for this scene only. */
  readonly mortal?: boolean
  /** w[3] was pushed since the job is in progress. */
  readonly next?: boolean
  /** Payloads of the job are in the morgue: v[2] and d[5]. */
  readonly dead?: boolean
  /** The job is in a shard that its queue no longer has. */
  readonly stray?: boolean
}

/** A setting as rows, in its own queue. */
export interface Scene {
  readonly testQueue: TestQueue
  /** P has the job in progress, if any process has. Q and R claim later. */
  readonly claimers: Readonly<Record<'P' | 'Q' | 'R', Claimer>>
  /** The round of P. */
  readonly round: Round | undefined
  /** The shard of the job. */
  readonly shard: number
  /** The renewal of P that was seen, if P may die. */
  readonly renewal: string | undefined
  /** The fences of the job's claims so far, in order. */
  readonly fences: number[]
}

interface Elsewhere {
  readonly shards: number
  readonly shard: number
}

/** Sets scenes. Its processes outlive them. */
export class SceneBuilder {
  readonly env: StoreEnvironment
  readonly #lasting: readonly number[]
  /** A number of shards with which the job is not in the first shard, and the job's shard then. */
  readonly #elsewhere: Elsewhere

  private constructor(env: StoreEnvironment, lasting: readonly number[], elsewhere: Elsewhere) {
    this.env = env
    this.#lasting = lasting
    this.#elsewhere = elsewhere
  }

  static async open(env: StoreEnvironment): Promise<SceneBuilder> {
    const lasting = [await env.process(LEASE), await env.process(LEASE), await env.process(LEASE)]
    const [row] = await env.query<{ shards: number; shard: number }>(
      `SELECT n AS shards, lockstep.shard_of($1, n) AS shard FROM generate_series(2, 100) n
       WHERE lockstep.shard_of($1, n) > 0 ORDER BY n LIMIT 1`,
      [ID],
    )
    return new SceneBuilder(env, lasting, row!)
  }

  async set({ job, mortal, next, dead, stray }: Setting): Promise<Scene> {
    const { database } = this.env
    const testQueue = await this.env.queue({ shards: stray ? this.#elsewhere.shards : 1 })
    const [p, q, r] = this.#lasting
    const claimer = (processId: number) => new Claimer(testQueue, processId, database)
    const P = claimer(job === 'left' || mortal ? await this.#mortal() : p!)
    const shard = stray ? this.#elsewhere.shard : 0
    if (dead) await bury(testQueue)
    if (job) await push(testQueue, 'v', 1)
    const { rounds } = job && job !== 'waiting' ? await P.claim({ shard }) : { rounds: [] }
    if (rounds.length === 0 && job && job !== 'waiting') throw new Error('nothing was there to claim')
    if (next) await push(testQueue, 'w', 3)
    if (job === 'left') await this.env.expire(P.processId)
    if (stray) await setShards(database, testQueue.queueId, 1)
    return {
      testQueue,
      claimers: { P, Q: claimer(q!), R: claimer(r!) },
      round: rounds[0],
      shard,
      renewal: mortal ? await this.#renewalOf(P.processId) : undefined,
      fences: rounds.map(({ fence }) => fence),
    }
  }

  #mortal(): Promise<number> {
    return this.env.process(HOUR)
  }

  async #renewalOf(processId: number): Promise<string> {
    const [row] = await this.env.query<{ renewal: string }>(
      'SELECT renewal FROM lockstep.processes WHERE process_id = $1',
      [processId],
    )
    return row!.renewal
  }
}

/** Pushes a payload of the job, through a transaction if one is given. */
export function push(
  { env, queue }: TestQueue,
  payload: string,
  score: number,
  tx?: pg.Client,
  id = ID,
  times = 1,
): Promise<void> {
  const job = { id, payload: JSON.stringify(payload), score, performIn: new Date(PAST), lane: 0 }
  return store(env.database, queue.name, Array(times).fill(job), tx)
}

async function bury(testQueue: TestQueue): Promise<void> {
  const { database } = testQueue.env
  await push(testQueue, 'v', 2)
  await push(testQueue, 'd', 5)
  await actOnWaiting(database, database.pool, 'kill', testQueue.queueId, [{ id: ID, next: false }])
}
