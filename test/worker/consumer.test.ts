import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLogger } from '../../src/logger.ts'
import { connectionConfig } from '../../src/postgres/connection.ts'
import type { Round } from '../../src/store/claim.ts'
import { Membership } from '../../src/worker/membership/membership.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { Batcher } from '../../src/worker/settling/batcher.ts'
import type { Claimant } from '../../src/worker/settling/claimant.ts'
import { Completer } from '../../src/worker/settling/completer.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** The parts that claim and settle without a handler: no slot, shard lock, timetable or poller. */
class Consumer {
  readonly testQueue: TestQueue
  readonly membership: Membership
  readonly told: string[] = []
  readonly #batcher: Batcher
  readonly #completer: Completer

  constructor(testQueue: TestQueue) {
    this.testQueue = testQueue
    const { connectionString, database } = testQueue.env
    const unheard = () => {}
    const told = {
      onEnding: unheard,
      onReconnected: unheard,
      onRenewed: unheard,
      onRequest: unheard,
      report: () => ({ eventLoopDelay: 0, memory: 0, shards: [], doing: [] }),
      onFailure: (error: unknown) => this.told.push(String(error)),
    }
    const info = { host: 'here', pid: 1, version: '0', slots: 0, queues: [] }
    const config = connectionConfig(connectionString, 'consumer')
    const lease = { config, schema: database.schema, info, lease: 2_000, killAtEnd: false, ...told }
    this.membership = new Membership(lease, { none: async () => true }, silentLogger)
    this.#batcher = new Batcher(database)
    this.#completer = new Completer(database, this.#batcher, silentLogger, {
      holds: (processId) => this.membership.holds(processId),
      completed: (_, rounds) => this.#tell('completed', rounds),
      failed: async (_, { round }) => this.#tell('failed', [round]),
      refused: (_, round) => this.#tell('refused', [round]),
      ended: (claimant, rounds) => claimant.release(rounds.length),
      waitAgain: async () => {},
    })
  }

  #tell(what: string, rounds: readonly Round[]): void {
    for (const { id } of rounds) this.told.push(`${what} ${id}`)
  }

  async start(): Promise<void> {
    await this.membership.start()
    await this.#completer.start()
  }

  async stop(): Promise<void> {
    await this.#completer.drain(5_000)
    await this.#completer.stop()
    await this.membership.stop()
  }

  /** Claims one job. Nothing runs here, and its row stays claimed until it is settled. */
  async take(): Promise<{ claimant: Claimant; round: Round }> {
    const { queue, queueId } = this.testQueue
    const retention = this.membership.retain()
    const key = { queueId, shard: 0, lane: 0 }
    const cursor = { after: null, afterId: '' }
    const { maxBytes, maxPayloads } = queue
    const wish = { key, cursor, count: 1, maxBytes, maxPayloads }
    const { rounds } = await this.#batcher.claim(retention.processId, wish, { jobs: 1, size: 0 })
    const served = new ServedQueue(queue, queueId)
    const claimant = { ...retention, served, shard: 0, slot: 0, startedAt: performance.now() }
    return { claimant, round: rounds[0]! }
  }

  settle(claimant: Claimant, round: Round, problem?: string): void {
    const failed = problem
      ? [{ round, end: 'fail' as const, error: problem, thrown: problem, retryIn: 3_600 }]
      : []
    this.#completer.settle(claimant, { completed: problem ? [] : [round], failed, released: [] })
  }
}

test('claims are settled without a handler, by membership and settling alone', async () => {
  const testQueue = await env.queue()
  await testQueue.push({ id: 'done' }, { id: 'failed' }, { id: 'left' })
  const consumer = new Consumer(testQueue)
  await consumer.start()
  try {
    const claims = [await consumer.take(), await consumer.take(), await consumer.take()]
    expect(claims.map(({ round }) => round.id)).toEqual(['done', 'failed', 'left'])
    consumer.settle(claims[0]!.claimant, claims[0]!.round)
    consumer.settle(claims[1]!.claimant, claims[1]!.round, 'no')
    await until(() => expect(consumer.told.toSorted()).toEqual(['completed done', 'failed failed']))
    expect(await testQueue.findJob('done')).toBeUndefined()
    expect(await testQueue.job('failed')).toMatchObject({ error: 'no', retry_count: 0, claimed_by: null })
    expect(await testQueue.job('left')).toMatchObject({ claimed_by: consumer.membership.processId })
  } finally {
    await consumer.stop()
  }
})

test('who registers anew still settles what it claimed before, and its former row goes after that', async () => {
  const testQueue = await env.queue()
  await testQueue.push({ id: 'a' })
  const consumer = new Consumer(testQueue)
  await consumer.start()
  const processes = async () =>
    (await env.query<{ id: number }>('SELECT process_id AS id FROM lockstep.processes')).map(({ id }) => id)
  try {
    const { claimant, round } = await consumer.take()
    await consumer.membership.reregister()
    const { processId } = consumer.membership
    expect(processId).toBeGreaterThan(claimant.processId)
    expect((await processes()).toSorted((a, b) => a - b)).toEqual([claimant.processId, processId])
    consumer.settle(claimant, round)
    await until(async () => expect(await processes()).toEqual([processId]))
    expect(consumer.told).toEqual(['completed a'])
  } finally {
    await consumer.stop()
  }
})
