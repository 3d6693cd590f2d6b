import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import { type Ended, exchange } from '../../src/store/exchange.ts'
import {
  Claimer,
  openStore,
  type StoreEnvironment,
  shown,
  type TestQueue,
} from '../support/store-environment.ts'

const IDS = Array.from({ length: 30 }, (_, index) => `id ${index}`)

/**
 * The tables are partitioned by queue, so the rows of two queues that were filled in the same way have the same ctids.
 */
let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore('partitioned')
})
afterAll(() => env?.close())

interface Pair {
  readonly testQueue: TestQueue
  readonly claimer: Claimer
  /** The twin queue, whose rows have the same ctids as those of the first. */
  readonly other: TestQueue
}

/** Two queues that are equal to the last byte, and a process that works on the first. */
async function twins(maxRetryCount = 25): Promise<Pair> {
  const [testQueue, other] = [await env.queue({ maxRetryCount }), await env.queue({ maxRetryCount })]
  const jobs = IDS.flatMap((id) => ['a', 'b'].map((payload, score) => ({ id, payload, score })))
  await testQueue.push(...jobs)
  await other.push(...jobs)
  return { testQueue, other, claimer: await testQueue.claimer() }
}

async function expectUntouched(other: TestQueue): Promise<void> {
  const { rounds } = await (await other.claimer()).claim({ batchSize: 100 })
  expect(shown(rounds).sort()).toEqual(IDS.map((id) => `${id}: a[0] b[1]`).sort())
}

test('P3 completing rounds of one partition leaves those of the others', async () => {
  const { testQueue, other, claimer } = await twins()
  const { rounds } = await claimer.claim({ batchSize: 100 })
  expect(await claimer.complete(...rounds)).toEqual([])
  expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([0, 0])
  await expectUntouched(other)
})

test('P3 rounds that go on after a push leave those of other partitions', async () => {
  const { testQueue, other, claimer } = await twins()
  const { rounds } = await claimer.claim({ batchSize: 100 })
  await testQueue.push(...IDS.map((id) => ({ id, payload: 'c', score: 2 })))
  expect(await claimer.complete(...rounds)).toHaveLength(IDS.length)
  expect(await testQueue.set('id 7')).toEqual(['c[2]'])
  await expectUntouched(other)
})

test('P6 failing and releasing rounds of one partition leave those of the others', async () => {
  const { other, claimer } = await twins()
  const { rounds } = await claimer.claim({ batchSize: 100 })
  expect(await claimer.fail(rounds.slice(0, 15))).toHaveLength(15)
  expect(await claimer.release(...rounds.slice(15))).toHaveLength(15)
  await expectUntouched(other)
})

test('R7 a death in one partition leaves the payloads of the others', async () => {
  const { testQueue, other, claimer } = await twins()
  const { rounds } = await claimer.claim({ batchSize: 100 })
  await claimer.fail(rounds, null)
  expect(await testQueue.dead('id 3')).toMatchObject([{ payload: 'a', score: 0 }])
  expect(await testQueue.set('id 3')).toEqual(['b[1]'])
  await claimer.fail((await claimer.claim({ batchSize: 100 })).rounds, null)
  expect(await testQueue.countJobs()).toBe(0)
  await expectUntouched(other)
})

test('P3 a call that completes rounds of two partitions ends each where it lies', async () => {
  const { testQueue, other, claimer } = await twins()
  const both = (await claimer.claim({ batchSize: 10 })).rounds
  const otherPlayer = new Claimer(other, claimer.processId, env.database)
  const others = (await otherPlayer.claim({ batchSize: 5 })).rounds
  const ended = (queueId: number, rounds: Round[]): Ended => ({
    queueId,
    kind: 'complete',
    rounds,
    failures: [],
  })
  const done = [ended(testQueue.queueId, both), ended(other.queueId, others)]
  expect((await exchange(env.database, claimer.processId, done, [])).leftovers).toEqual([])
  expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([20, 40])
  expect([await other.countJobs(), await other.countPayloads()]).toEqual([25, 50])
})

test('P3 a call that claims jobs of two partitions takes each where it lies', async () => {
  const { testQueue, other, claimer } = await twins()
  const wish = ({ queueId }: TestQueue, count: number) => ({
    key: { queueId, shard: 0, lane: 0 },
    cursor: { after: null, afterId: '' },
    count,
    maxPayloads: undefined,
    maxBytes: 1024,
  })
  const wishes = [wish(testQueue, 10), wish(other, 5)]
  const { claims } = await exchange(env.database, claimer.processId, [], wishes)
  expect(claims.map(({ rounds }) => rounds.map(({ id }) => id).sort())).toEqual([
    IDS.toSorted().slice(0, 10),
    IDS.toSorted().slice(0, 5),
  ])
  expect((await claimer.claim({ batchSize: 100 })).rounds).toHaveLength(20)
})

test('P3 no statement finds a row of a partitioned table by its ctid alone', () => {
  const folder = new URL('../../sql/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.sql'),
  )
  const alone = files.flatMap((file) =>
    statementsOf(readFileSync(new URL(file, folder), 'utf8'))
      .filter(findsByCtid)
      .filter((statement) => !/\.queue_id \+ 0 = [^;]*\.ctid = /.test(statement))
      .map((statement) => `${file}: ${statement}`),
  )
  expect(alone).toEqual([])
})

/** Whether a condition compares a row's ctid: where it is only read, `AS` or a comma follows. */
function findsByCtid(statement: string): boolean {
  return /\.ctid\s*(=|<|>|IN\b)/i.test(statement)
}

function statementsOf(text: string): string[] {
  return text
    .replace(/--.*$/gm, '')
    .split(/WHERE/)
    .map((part) => part.trim())
}
