import type pg from 'pg'
import type { Round } from '../../src/store/claim.ts'
import { actOnWaiting } from '../../src/store/jobs.ts'
import { push as store } from '../../src/store/push.ts'
import { setShards } from '../../src/store/queue.ts'
import { type Board, Player, type Stage } from '../support/rounds.ts'

/** The job everything is about. */
export const ID = 'a'
/** Long ago: due, whoever asks when. */
export const PAST = 1_536_323_288_000
/** ms. */
export const HOUR = 3_600_000
/** ms; longer than any test, even one in which hours pass. */
const LEASE = 100 * HOUR

/** How things stand with the job before anybody begins. */
export interface Setting {
  readonly name: string
  /** Its payload is v[1]. `left`: claimed by a process that was removed. */
  readonly job?: 'waiting' | 'in work' | 'left'
  /** Who has it in work is a process of its own. */
  readonly mortal?: boolean
  /** w[3] was pushed since it is in work. */
  readonly next?: boolean
  /** Payloads of it lie in the morgue: v[2] and d[5]. */
  readonly dead?: boolean
  /** It stands in a shard that its queue no longer has. */
  readonly stray?: boolean
}

/** A setting come true, in a queue of its own. */
export interface Scene {
  readonly board: Board
  /** P has the job in work, where somebody has; Q and R come and claim. */
  readonly players: Readonly<Record<'P' | 'Q' | 'R', Player>>
  /** What P has. */
  readonly round: Round | undefined
  /** Where the job stands. */
  readonly shard: number
  /** As P was seen, if it may die. */
  readonly renewal: string | undefined
  /** Those of its claims so far, in their order. */
  readonly fences: number[]
}

interface Elsewhere {
  readonly shards: number
  readonly shard: number
}

/** Sets scenes, with the processes that outlive them. */
export class Theatre {
  readonly stage: Stage
  readonly #lasting: readonly number[]
  /** A number of shards with which the job is not in the first, and where it is then. */
  readonly #elsewhere: Elsewhere

  private constructor(stage: Stage, lasting: readonly number[], elsewhere: Elsewhere) {
    this.stage = stage
    this.#lasting = lasting
    this.#elsewhere = elsewhere
  }

  static async open(stage: Stage): Promise<Theatre> {
    const lasting = [await stage.process(LEASE), await stage.process(LEASE), await stage.process(LEASE)]
    const [row] = await stage.query<{ shards: number; shard: number }>(
      `SELECT n AS shards, lockstep.shard_of($1, n) AS shard FROM generate_series(2, 100) n
       WHERE lockstep.shard_of($1, n) > 0 ORDER BY n LIMIT 1`,
      [ID],
    )
    return new Theatre(stage, lasting, row!)
  }

  async set({ job, mortal, next, dead, stray }: Setting): Promise<Scene> {
    const { database } = this.stage
    const board = await this.stage.queue({ shards: stray ? this.#elsewhere.shards : 1 })
    const [p, q, r] = this.#lasting
    const player = (processId: number) => new Player(board, processId, database)
    const P = player(job === 'left' || mortal ? await this.#mortal() : p!)
    const shard = stray ? this.#elsewhere.shard : 0
    if (dead) await bury(board)
    if (job) await push(board, 'v', 1)
    const { rounds } = job && job !== 'waiting' ? await P.claim({ shard }) : { rounds: [] }
    if (rounds.length === 0 && job && job !== 'waiting') throw new Error('nothing was there to claim')
    if (next) await push(board, 'w', 3)
    if (job === 'left') await this.stage.expire(P.processId)
    if (stray) await setShards(database, board.queueId, 1)
    return {
      board,
      players: { P, Q: player(q!), R: player(r!) },
      round: rounds[0],
      shard,
      renewal: mortal ? await this.#renewalOf(P.processId) : undefined,
      fences: rounds.map(({ fence }) => fence),
    }
  }

  #mortal(): Promise<number> {
    return this.stage.process(HOUR)
  }

  async #renewalOf(processId: number): Promise<string> {
    const [row] = await this.stage.query<{ renewal: string }>(
      'SELECT renewal FROM lockstep.processes WHERE process_id = $1',
      [processId],
    )
    return row!.renewal
  }
}

/** Pushes a payload of the job, through a transaction where one is given. */
export function push(
  { stage, queue }: Board,
  payload: string,
  score: number,
  tx?: pg.Client,
  id = ID,
  times = 1,
): Promise<void> {
  const job = { id, payload: JSON.stringify(payload), score, performIn: new Date(PAST), lane: 0 }
  return store(stage.database, queue.name, Array(times).fill(job), tx)
}

async function bury(board: Board): Promise<void> {
  const { database } = board.stage
  await push(board, 'v', 2)
  await push(board, 'd', 5)
  await actOnWaiting(database, database.pool, 'kill', board.queueId, [{ id: ID, next: false }])
}
