import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { actOnWaiting, type JobAction } from '../../src/store/jobs.ts'
import { listDead, requeueDead } from '../../src/store/morgue.ts'
import { push as store } from '../../src/store/push.ts'
import { complete, fail } from '../../src/store/settle.ts'
import type { Claimer, TestQueue } from '../support/store-environment.ts'
import { bounds, type Ground, openGround } from './ground.ts'
import { type Operation, pushNew } from './operations.ts'
import { PAST, push, type Scene } from './scenes.ts'
import { judge } from './verdict.ts'

const IDS = ['a', 'm', 'z']

let ground: Ground
beforeAll(async () => {
  ground = await openGround(1, 3)
})
afterAll(() => ground?.close())

/** An operation on several ids, in the given order. */
interface Bulk {
  readonly name: string
  act(testQueue: TestQueue, session: pg.Client, ids: readonly string[], claimer: Claimer): Promise<unknown>
}

const pushing: Bulk = {
  name: 'a push',
  act: ({ env, queue }, session, ids) => {
    const jobs = ids.map((id) => ({
      id,
      payload: '"n"',
      score: 1,
      performIn: new Date(PAST),
      lane: 0,
      headers: null,
      tenant: null,
      expiresIn: null,
    }))
    return store(env.database, queue.name, jobs, session)
  },
}

const requeueing: Bulk = {
  name: 'a requeue',
  async act({ env, queueId }, session, ids) {
    const span = { after: undefined, lastId: 'z', limit: 10 }
    const dead = await listDead(env.database, queueId, {}, span)
    const ordered = ids.flatMap((id) => dead.filter((key) => key.id === id))
    return requeueDead(env.database, session, queueId, ordered)
  },
}

function acting(name: string, action: JobAction, next: boolean): Bulk {
  return {
    name,
    act({ env, queueId }, session, ids) {
      const entries = ids.map((id) => ({ id, next }))
      return actOnWaiting(env.database, session, action, queueId, entries)
    },
  }
}

function ending(name: string, end: typeof complete): Bulk {
  return {
    name,
    act: async (testQueue, session, ids, { processId }) => {
      const rows = await testQueue.env.query<{ id: string; fence: number }>(
        'SELECT id, fence FROM lockstep.jobs WHERE queue_id = $1',
        [testQueue.queueId],
      )
      const rounds = ids.map((id) => ({ ...rows.find((row) => row.id === id)!, cut: undefined }) as never)
      return end(testQueue.env.database, { processId, queueId: testQueue.queueId, tx: session }, rounds)
    },
  }
}

const completing = ending('a handler’s completion', complete)
const failing = ending('a handler’s failure', (database, holder, rounds) =>
  fail(
    database,
    holder,
    rounds.map((round) => ({ round, end: 'die', error: 'no', retryIn: null })),
  ),
)
const actsOn = (next: boolean) => [
  acting('a perform now', 'perform_now', next),
  acting('a delete', 'delete_jobs', next),
  acting('a kill', 'kill', next),
]
const ACTS = actsOn(false)

type State = 'waiting' | 'in work' | 'in work and pushed again' | 'dead'
const BULKS: readonly [State, readonly Bulk[]][] = [
  ['waiting', [pushing, ...ACTS]],
  ['in work', [pushing, completing, failing]],
  ['in work and pushed again', [pushing, completing, failing, ...actsOn(true)]],
  ['dead', [pushing, requeueing]],
]
const PAIRS = BULKS.flatMap(([state, bulks]) =>
  bulks.flatMap((one, place) =>
    bulks.slice(place).map((other) => [one.name, other.name, state, one, other] as const),
  ),
)

/**
 * A third session holds the id in the middle. So if an operation locks in the given order, it has its first id, and
 * both operations wait. When the third session releases the middle id, each would wait for what the other one has.
 */
describe('P4 the same ids in opposite order can’t deadlock', () => {
  test.each(PAIRS)('%s and %s of ids that are %s', async (_one, _other, state, one, other) => {
    const { sceneBuilder, crews } = ground
    const { testQueue, claimers } = await sceneBuilder.set({ name: '' })
    await pushing.act(testQueue, sceneBuilder.env.database.pool as never, IDS, claimers.P)
    if (state.startsWith('in work')) expect((await claimers.P.claim({ batchSize: 3 })).rounds).toHaveLength(3)
    if (state.endsWith('pushed again'))
      await pushing.act(testQueue, sceneBuilder.env.database.pool as never, IDS, claimers.P)
    if (state === 'dead')
      await ACTS[2]!.act(testQueue, sceneBuilder.env.database.pool as never, IDS, claimers.P)

    const orders = [IDS, IDS.toReversed()]
    const parts = [one, other].map(({ act }, place) => ({
      work: async (session: pg.Client) => `${await act(testQueue, session, orders[place]!, claimers.P)}`,
    }))
    const middle = { work: (session: pg.Client) => push(testQueue, 'middle', 1, session, 'm').then(() => '') }
    const { steps, answers } = await crews[0]!.play([...parts, middle], [2, 0])
    expect(steps).toEqual(expect.arrayContaining(['A waits', 'B waits']))
    expect(answers.filter((answer) => answer.startsWith('fails'))).toEqual([])
  })
})

describe('P7 in a deadlock with the application', () => {
  /** ms; like the product's, far below the server's deadlock_timeout. */
  const LOCK_TIMEOUT = 100

  const application: Operation = {
    name: 'the application’s transaction',
    async act(scene, session) {
      await pushNew.act(scene, session)
      await push(scene.testQueue, 'n', 1, session, 'b')
      return 'committed'
    },
  }
  const handler: Operation = {
    name: 'the handler’s transaction',
    triedAgainAfter: /^fails: .*lock timeout/,
    async act({ testQueue, claimers, round }: Scene, session) {
      await session.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT}`)
      await push(testQueue, 'h', 2, session, 'b')
      const [exception] = await claimers.P.completeIn(session, round!)
      return exception?.outcome ?? 'gone'
    },
  }

  test('it is the handler’s transaction that gives way, never the application’s', async () => {
    const opposite = {
      title: '',
      setting: { name: '', job: 'in work' as const },
      operations: [handler, application],
    }
    // The prescribed beginning of each schedule ends before any session waits, so no time-out can upset it.
    expect(
      await judge(ground.sceneBuilder, ground.crews, opposite, { ...bounds(100), switches: 1 }),
    ).toBeGreaterThan(5)
  })
})
