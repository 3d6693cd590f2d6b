import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Batch, defineQueue, type EnqueueTransaction, type Queue } from '../../src/index.ts'
import { advance, assertEnqueued, assertNotEnqueued, drain } from '../../src/testing/index.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import type { Application } from './adapter.ts'
import { LIBRARIES_HERE } from './libraries.ts'

interface Payload {
  text: string
}

const AN_HOUR = 3_600_000
/** What literals, JSON and the templates of libraries might change. */
const TEXT = `it's $1, \${x}, :name, ? and \\ ; "ü"`
const ROLLED_BACK = new Error('rolled back')

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
  await env.query('CREATE TABLE written (text text)')
})
afterAll(() => env?.close())
beforeEach(() => env.query('TRUNCATE written'))

describe.each(LIBRARIES_HERE.map((library) => [library.name, library] as const))(
  '%s: a test in a transaction that it rolls back',
  (_, library) => {
    let application: Application<EnqueueTransaction>
    beforeAll(async () => {
      application = await library.open(env.connectionString)
    })
    afterAll(() => application?.close())

    /** Its handler writes by its transaction, and fails on the id `later`. */
    function define(name: string, got: unknown[]): Queue<Payload> {
      async function perform(batch: Batch<Payload>, { tx }: { tx: unknown }) {
        got.push(...[...batch].map(([id, [payload]]) => [id, payload]))
        if (batch.has('later')) throw new Error(TEXT)
        await application.execute(tx as EnqueueTransaction, `INSERT INTO written VALUES ('handler')`)
      }
      const { transactions } = application
      return transactions
        ? defineQueue(name, { maxRetryCount: 0, transactional: transactions, perform })
        : defineQueue(name, { maxRetryCount: 0, transactional: true, perform })
    }

    async function rolledBack(work: (tx: EnqueueTransaction) => Promise<unknown>): Promise<void> {
      const ended = application.transaction(async (tx) => {
        await work(tx)
        throw ROLLED_BACK
      })
      await expect(ended).rejects.toBe(ROLLED_BACK)
    }

    test('enqueues, looks, performs, lets time pass, and leaves nothing', async () => {
      const { lockstep } = env
      const got: unknown[] = []
      const queue = define((await env.queue()).queue.name, got)
      const before = Date.now()
      const later = new Date(before + AN_HOUR)
      await rolledBack(async (tx) => {
        const jobs = [
          { id: TEXT, payload: { text: TEXT }, score: 1.5 },
          { id: 'later', payload: { text: 'x' }, performIn: later },
        ]
        await lockstep.enqueue(queue, jobs, { tx })
        const found = await assertEnqueued(lockstep, queue, { id: TEXT, payload: { text: TEXT } }, { tx })
        expect(found).toMatchObject({ score: 1.5, performIn: expect.any(Date) })
        const waiting = await lockstep.find(queue, { performIn: { from: later, to: later } }, { tx })
        expect(waiting.items).toMatchObject([{ id: 'later', performIn: later }])

        expect(await drain(lockstep, queue, { tx })).toMatchObject({ completed: 1, failed: [] })
        await advance(lockstep, queue, AN_HOUR, { tx })
        const { failed } = await drain(lockstep, queue, { tx, retries: true })
        expect(failed).toMatchObject([{ id: 'later', retryIn: null, error: { message: TEXT } }])
        expect(got).toEqual([
          [TEXT, { text: TEXT }],
          ['later', { text: 'x' }],
        ])

        await assertNotEnqueued(lockstep, queue, {}, { tx })
        const { items } = await lockstep.findDead(queue, {}, { tx })
        expect(items).toMatchObject([{ id: 'later', payload: { text: 'x' }, diedAt: expect.any(Date) }])
        expect(items[0]!.error).toContain(TEXT)
        const { queues } = await lockstep.stats({ tx })
        expect(queues).toContainEqual(expect.objectContaining({ queue: queue.name, dead: 1, waiting: 0 }))
      })
      expect((await lockstep.findDead(queue)).items).toEqual([])
      expect(await env.query('SELECT FROM written')).toHaveLength(0)
    })
  },
)
