import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Instruments } from '../../src/instruments.ts'
import { silentLogger } from '../../src/logger.ts'
import type { Round } from '../../src/store/claim.ts'
import type { Head } from '../../src/store/head.ts'
import type { Membership } from '../../src/worker/membership/membership.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { Batcher } from '../../src/worker/settling/batcher.ts'
import type { Claimant } from '../../src/worker/settling/claimant.ts'
import { Completer } from '../../src/worker/settling/completer.ts'
import { Observer } from '../../src/worker/settling/observer.ts'
import type { Outcome } from '../../src/worker/settling/outcome.ts'
import { Tally } from '../../src/worker/settling/tally.ts'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  type TestQueue,
  until,
} from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

afterEach(() => env.endSessions())

const NOTHING: Outcome = { completed: [], failed: [], released: [] }
const failure = (round: Round, retryIn: number | null = 3600) => ({
  round,
  end: retryIn === null ? ('die' as const) : ('fail' as const),
  retryIn,
  error: `no ${round.id}`,
  thrown: 'no',
})

/** What a worker stores outcomes with, and the events that it reports. */
function settling(holds = true) {
  const events: string[] = []
  const ids = (rounds: readonly Round[]) => rounds.map(({ id }) => id)
  const { database } = env
  const timetable = new Timetable(new ServerClock())
  const logger = silentLogger
  const parts = {
    database,
    logger,
    timetable,
    instruments: new Instruments([], logger),
    tally: new Tally(database),
  }
  const real = new Observer({ ...parts, membership: {} as Membership })
  const observer = {
    holds: () => holds,
    completed: (_: Claimant, rounds: readonly Round[]) => void events.push(`completed ${ids(rounds)}`),
    failed: (_: Claimant, { round }: { round: Round }) => void events.push(`failed ${round.id}`),
    refused: (_: Claimant, { id }: Round) => void events.push(`refused ${id}`),
    ended: (_: Claimant, rounds: readonly Round[]) => void events.push(`ended ${ids(rounds)}`),
    waitAgain: (heads: readonly Head[]) => real.waitAgain(heads),
  }
  const completer = new Completer(database, new Batcher(database), logger, observer)
  return { completer, timetable, events }
}

function servedOf({ queue, queueId }: TestQueue): ServedQueue {
  return new ServedQueue(queue, queueId)
}

function claimantOf(testQueue: TestQueue, { processId }: Claimer): Claimant {
  return { served: servedOf(testQueue), processId, release() {}, shard: 0, slot: 0, startedAt: 0 }
}

// The answer to a completion was lost, and the claim is gone when the completion is sent again. A process that stood
// still for longer than its lease sends it before it hears that the lease has ended.
test.each([
  ['told as stored while the lease runs: nobody else can have ended it', true, 'completed'],
  ['told as refused once the lease is over: somebody else may have the job', false, 'refused'],
])(
  'P6: a claim that is gone, with the answer to its first completion lost, is %s',
  async (_, holds, told) => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a' })
    const round = await claimer.take()
    await claimer.complete(round)

    const { completer, events } = settling(holds)
    await completer.start()
    completer.settle(claimantOf(testQueue, claimer), { ...NOTHING, completed: [round] }, true)
    await completer.drain(10_000)
    await completer.stop()
    expect(events).toEqual([`${told} a`, 'ended a'])
  },
)

test('P3 R6 R15: one outcome that can’t be stored keeps none of those that go with it from being stored', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push(
    ...['completed', 'failed', 'released', 'bad'].map((id, n) => ({ id, performIn: new Date(n) })),
  )
  const [completed, failed, released, bad] = (await claimer.claim({ batchSize: 4 })).rounds as Round[]
  await env.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON lockstep.jobs FOR EACH ROW WHEN (old.id = 'bad') EXECUTE FUNCTION refuse()`)
  const { completer, events } = settling()
  await completer.start()
  const outcomes: Partial<Outcome>[] = [
    { completed: [completed!] },
    { failed: [failure(failed!)] },
    { failed: [failure(bad!)] },
    { released: [released!] },
  ]
  for (const outcome of outcomes) completer.settle(claimantOf(testQueue, claimer), { ...NOTHING, ...outcome })
  await until(() =>
    expect(events.toSorted()).toEqual(
      [
        'completed completed',
        'ended completed',
        'ended failed',
        'ended released',
        'failed failed',
      ].toSorted(),
    ),
  )
  expect(await testQueue.findJob('completed')).toBeUndefined()
  expect(await testQueue.job('failed')).toMatchObject({
    retry_count: 0,
    error: 'no failed',
    claimed_by: null,
  })
  expect(await testQueue.job('released')).toMatchObject({ retry_count: -1, claimed_by: null })
  expect(await testQueue.job('bad')).toMatchObject({ claimed_by: claimer.processId })

  await env.query('DROP TRIGGER refuse ON lockstep.jobs')
  await completer.drain(10_000)
  await completer.stop()
  expect(await testQueue.job('bad')).toMatchObject({ retry_count: 0, error: 'no bad', claimed_by: null })
})

test('R7: deaths that go together are each stored, though the row in the morgue of one is locked', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  const ids = Array.from({ length: 20 }, (_, index) => `id ${index}`)
  await testQueue.push({ id: 'id 7' })
  await claimer.fail([await claimer.take()], null)
  const tx = await env.transaction()
  await tx.query('SELECT FROM lockstep.morgue FOR UPDATE')
  await testQueue.push(...ids.map((id) => ({ id })))
  const { completer, events } = settling()
  await completer.start()
  for (const round of (await claimer.claim({ batchSize: 20 })).rounds)
    completer.settle(claimantOf(testQueue, claimer), { ...NOTHING, failed: [failure(round, null)] })
  await until(() => expect(events.filter((event) => event.startsWith('failed'))).toHaveLength(19))
  expect(await testQueue.job('id 7')).toMatchObject({ claimed_by: claimer.processId })
  await tx.query('COMMIT')
  await completer.drain(10_000)
  await completer.stop()
  expect(await testQueue.countJobs()).toBe(0)
  for (const id of ids) expect(await testQueue.dead(id)).toMatchObject([{ error: `no ${id}` }])
})

test('P8: what waits again in a shard that others have by now is told to them, the first of each lane', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push(...['a', 'b', 'c'].map((id) => ({ id })), {
    id: 'd',
    lane: 3,
    performIn: new Date(5_000),
  })
  const { rounds } = await claimer.claim({ batchSize: 3 })
  const [d] = (await claimer.claim({ lane: 3 })).rounds
  const session = await env.session()
  const heard: (string | undefined)[] = []
  session.on('notification', ({ payload }) => heard.push(payload))
  await session.query('LISTEN lockstep')
  const { completer, timetable } = settling()
  const claimant = claimantOf(testQueue, claimer)
  const [a, b, c] = rounds as [Round, Round, Round]
  completer.settle(claimant, { completed: [c], failed: [failure(a), failure(b, 60)], released: [d!] })
  await completer.drain(10_000)
  const due = Math.round((await testQueue.job('b')).performIn * 1000)
  await until(() => expect(heard).toEqual([`${testQueue.queueId} 0:0:${due} 0:3:5000000`]))

  // If the shard is our own, no one else need hear.
  timetable.add(new Shard(servedOf(testQueue), 0, undefined))
  await testQueue.push({ id: 'e' })
  completer.settle(claimant, { ...NOTHING, released: [await claimer.take()] })
  await completer.drain(10_000)
  await env.query(`NOTIFY lockstep, 'end'`)
  await until(() => expect(heard.slice(1)).toEqual(['end']))
})
