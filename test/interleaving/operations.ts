import type pg from 'pg'
import type { Round } from '../../src/store/claim.ts'
import { claimWaiting as claimWaitingFor } from '../../src/store/claim-waiting.ts'
import { actOnWaiting, type JobAction, listWaiting, lockWaiting } from '../../src/store/jobs.ts'
import { deleteDead, listDead, lockDead, requeueDead } from '../../src/store/morgue.ts'
import { removeProcess, removeSilent } from '../../src/store/process.ts'
import { renewAndReport } from '../../src/store/process-report.ts'
import { rehome } from '../../src/store/queue.ts'
import type { Leftover } from '../../src/store/settle.ts'
import { type Claimer, shown, through } from '../support/store-environment.ts'
import { HOUR, ID, PAST, push, type Scene } from './scenes.ts'

/** One operation, performed as the product does it. */
export interface Operation {
  readonly name: string
  /** Returns what the operation reports to its caller. */
  readonly act: (scene: Scene, session: pg.Client) => Promise<string>
  /** Default `COMMIT`. */
  readonly end?: 'ROLLBACK'
  /**
   * After this answer the product tries again, because another transaction was in the way. Only so may an operation's
   * result differ from its result alone.
   */
  readonly triedAgainAfter?: RegExp
}

/** Pushing the same job twice is a bulk push, which takes its own path. */
function pushing(name: string, payload: string, score: number, times = 1, end?: 'ROLLBACK'): Operation {
  return {
    name,
    end,
    async act({ testQueue }, session) {
      await push(testQueue, payload, score, session, ID, times)
      return 'pushed'
    },
  }
}

export const pushNew = pushing('a push', 'n', 0)
export const pushEqual = pushing('an equal push', 'v', 4, 2)
/** The smallest score wins. */
export const pushEqualLower = pushing('an equal push before it', 'v', -1)
export const pushInVain = pushing('a push rolled back', 'n', 0, 2, 'ROLLBACK')

/** The payloads of the round, if its fence is above all earlier ones. */
function taken({ fences }: Scene, round: Round): string {
  const { fence } = round
  if (fences.some((before) => before >= fence)) return `WRONG: fence ${fence} after ${fences}`
  fences.push(fence)
  return shown([round]).join()
}

function claiming(name: string, who: 'P' | 'Q' | 'R', inOldShard = false): Operation {
  return {
    name,
    /** The claim passes over a locked row, and the next look finds the job. */
    triedAgainAfter: /^nothing$/,
    async act(scene, session) {
      const { rounds } = await scene.claimers[who].on(session).claim({ shard: inOldShard ? scene.shard : 0 })
      const [round] = rounds
      if (!round) return 'nothing'
      const { retryCount, crashes, rescued, error } = round
      return `${taken(scene, round)} retry ${retryCount} crashes ${crashes} rescued ${rescued} error ${error}`
    },
  }
}

export const claim = claiming('a claim', 'Q')
/** By the process that had the job before. */
export const nextClaim = claiming('its next claim', 'P')
export const otherClaim = claiming('another claim', 'R')
export const claimInOldShard = claiming('a claim in the shard that went', 'R', true)

export const claimWaiting: Operation = {
  name: 'a claim that waits',
  /** It gets no job, or not yet. It is only for jobs that claims have passed over, and claims go on. */
  triedAgainAfter: /^nothing$/,
  async act(scene, session) {
    const { testQueue, claimers } = scene
    const key = { queueId: testQueue.queueId, shard: 0, lane: 0 }
    const passed = { key, performIn: PAST * 1_000, maxPayloads: undefined, maxBytes: 1_000 }
    const [round] = await claimWaitingFor(testQueue.env.database, session, claimers.Q.processId, passed)
    return round ? taken(scene, round) : 'nothing'
  },
}

function ending(name: string, end: (claimer: Claimer, scene: Scene) => Promise<Leftover[]>): Operation {
  return {
    name,
    /** The worker keeps the outcome and stores it later. */
    triedAgainAfter: /^held$/,
    async act(scene, session) {
      const [exception] = await end(scene.claimers.P.on(session), scene)
      return exception?.outcome ?? 'gone'
    },
  }
}

export const complete = ending('a completion', (claimer, { round }) => claimer.complete(round!))
/** By a worker that did not get the answer to the first completion. */
export const completeAgain: Operation = { ...complete, name: 'the completion sent again' }
export const completeWaiting: Operation = {
  name: 'a handler’s completion',
  async act({ claimers, round }, session) {
    const [exception] = await claimers.P.completeIn(session, round!)
    return exception?.outcome ?? 'gone'
  },
}
export const fail = ending('a failure', (claimer, { round }) => claimer.fail([round!], -60))
export const die = ending('a death', (claimer, { round }) => claimer.fail([round!], null))
export const discard = ending('a discard', (claimer, { round }) => claimer.discard(round!))
export const snooze = ending('a snooze', (claimer, { round }) => claimer.fail([round!], -60, null))
export const release = ending('a release', (claimer, { round }) => claimer.release(round!))

/** One transaction of a walk over waiting jobs. */
function acting(name: string, action: JobAction): Operation {
  return {
    name,
    async act({ testQueue: { env, queueId } }, session) {
      const filter = { ids: [ID] }
      const ids = await listWaiting(env.database, queueId, filter, { after: undefined, last: ID, limit: 10 })
      const entries = await lockWaiting(env.database, session, queueId, filter, ids)
      return `${await actOnWaiting(env.database, session, action, queueId, entries)}`
    },
  }
}

export const performNow = acting('a perform now', 'perform_now')
export const remove = acting('a delete', 'delete_jobs')
export const kill = acting('a kill', 'kill')

const WHOLE_MORGUE = { after: undefined, lastId: ID, limit: 10 }

export const requeue: Operation = {
  name: 'a requeue',
  async act({ testQueue: { env, queueId } }, session) {
    const dead = await listDead(env.database, queueId, {}, WHOLE_MORGUE)
    return `${await requeueDead(env.database, session, queueId, dead)}`
  },
}

export const deleteFromMorgue: Operation = {
  name: 'a delete from the morgue',
  async act({ testQueue: { env, queueId } }, session) {
    const seen = await listDead(env.database, queueId, {}, WHOLE_MORGUE)
    const dead = await lockDead(env.database, session, queueId, {}, seen)
    await deleteDead(env.database, session, queueId, dead)
    return `${dead.length}`
  },
}

export const reshard: Operation = {
  name: 'a move to another shard',
  /** It passes over locked rows, and the workers call it until none are left. */
  triedAgainAfter: /^0$/,
  async act({ testQueue: { env, queueId } }, session) {
    return `${await rehome(through(session, env.database), queueId, 10)}`
  },
}

export const renew: Operation = {
  name: 'a renewal',
  async act({ testQueue: { env }, claimers }, session) {
    const { schema } = env.database
    const report = { eventLoopDelay: 0, memory: 0, shards: [], doing: [] }
    const renewed = await renewAndReport(session, schema, [claimers.P.processId], HOUR, report)
    return renewed.length ? 'alive' : 'too late'
  },
}

/** By a process that saw the renewal made at registration, and has waited for its lease since then. */
export const removal: Operation = {
  name: 'its removal as a silent one',
  async act({ testQueue: { env }, claimers, renewal }, session) {
    const seen = [{ processId: claimers.P.processId, renewal: renewal! }]
    const removed = await removeSilent(through(session, env.database), seen)
    return removed.length ? 'removed' : 'heard of, or gone'
  },
}

export const leave: Operation = {
  name: 'a process’s farewell',
  async act({ testQueue: { env }, claimers }, session) {
    await removeProcess(session, env.database.schema, claimers.P.processId)
    return 'left'
  },
}

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED'

/** Two transactions. Anything may happen in between. */
export const round: Operation = {
  name: 'another round',
  triedAgainAfter: /^nothing$/,
  async act(scene, session) {
    const { R } = scene.claimers
    const [round] = (await R.on(session).claim()).rounds
    if (!round) return 'nothing'
    await session.query('COMMIT')
    await session.query(BEGIN)
    const told = taken(scene, round)
    const [exception] = await R.completeIn(session, round)
    return `${told} ${exception?.outcome ?? 'gone'}`
  },
}
