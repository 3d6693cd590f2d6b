import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { EnqueueTransaction, NewJob } from '../../src/index.ts'
import { createDatabase, createMigrated } from '../support/database.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import type { Application } from './adapter.ts'
import { LIBRARIES_HERE } from './libraries.ts'
import { titleOf } from './versions.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  await env.query('CREATE TABLE written (text text)')
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  await env.query('TRUNCATE written')
})

const jobs = (count: number): NewJob[] =>
  Array.from({ length: count }, (_, i) => ({ id: `${i}`, payload: { at: i } }))
const isStored = async (count: number) => {
  expect(await testQueue.countJobs()).toBe(count)
  expect(await env.query('SELECT FROM written')).toHaveLength(count === 0 ? 0 : 1)
}

const ROLLED_BACK = new Error('rolled back')

describe.each(LIBRARIES_HERE.map((library) => [titleOf(library, 'as `tx`'), library] as const))(
  '%s',
  (_, library) => {
    let application: Application<EnqueueTransaction>
    beforeAll(async () => {
      application = await library.open(env.connectionString)
    })
    afterAll(() => application?.close())

    const enqueue = (tx: unknown, given: NewJob | NewJob[], lockstep = env.lockstep) =>
      lockstep.enqueue(testQueue.queue, given, { tx: tx as EnqueueTransaction })
    const write = (tx: EnqueueTransaction) => application.execute(tx, `INSERT INTO written VALUES ('one')`)

    /** Whether the queue and the database are known already decides how a push is sent. */
    const LOCKSTEPS = {
      'a Lockstep’s first push': () => env.lockstepAnew(),
      'a later one': () => env.lockstep,
    }

    describe.each(Object.entries(LOCKSTEPS))('%s', (_, lockstep) => {
      test.each([1, 3, 5_000])('%i jobs are there if and when it commits', async (count) => {
        await application.transaction(async (tx) => {
          await write(tx)
          expect(await enqueue(tx, jobs(count), lockstep())).toBe(count)
          expect(await testQueue.countJobs()).toBe(0)
        })
        await isStored(count)
      })

      test.each([1, 3, 5_000])('%i jobs are gone if it is rolled back', async (count) => {
        const rolled = application.transaction(async (tx) => {
          await write(tx)
          await enqueue(tx, jobs(count), lockstep())
          throw ROLLED_BACK
        })
        await expect(rolled).rejects.toBe(ROLLED_BACK)
        await isStored(0)
      })
    })

    test('jobs of a savepoint that is rolled back are gone, the others stay', async ({ skip }) => {
      const { nested } = application
      if (!nested) return skip('its savepoints are statements of its own')
      await application.transaction(async (tx) => {
        await enqueue(tx, { id: 'before' })
        const inner = nested(tx, async (savepoint) => {
          await enqueue(savepoint, jobs(3))
          throw ROLLED_BACK
        })
        await expect(inner).rejects.toBe(ROLLED_BACK)
        await enqueue(tx, { id: 'after' })
      })
      const rows = await env.query('SELECT id FROM lockstep.waiting WHERE queue = $1 ORDER BY id', [
        testQueue.queue.name,
      ])
      expect(rows).toEqual([{ id: 'after' }, { id: 'before' }])
    })

    const VALUES: Readonly<Record<string, unknown>> = {
      null: null,
      true: true,
      number: -12.5e-7,
      text: `it's "quoted" \\ ? ?? $1 :name {a,b} %s 🦆 \n`,
      'text that looks like JSON': '{"a": 1}',
      list: [1, [2, null], { three: '}' }],
      object: { deep: { er: [true, 'x,y'] }, 'ключ?': 1 },
    }

    test('payloads, scores, times, lanes and headers of every kind arrive as they were given', async () => {
      const performIn = new Date(Date.now() + 3_600_000)
      const given: NewJob[] = Object.entries(VALUES).map(([name, payload], i) => ({
        id: `${name} 'of' "${i}" {?} \\ 🦆`,
        payload,
        score: i / 3 - 1,
        performIn,
        lane: i,
        headers: { from: `"${name}"`, nested: { list: [1, 'two'] } },
      }))
      await application.transaction(async (tx) => {
        await enqueue(tx, given[0]!)
        await enqueue(tx, given.slice(1))
      })
      const stored = await env.query(
        `SELECT id, payload, score, perform_in AS "performIn", lane, headers FROM lockstep.jobs
       WHERE queue_id = $1 ORDER BY lane`,
        [testQueue.queueId],
      )
      expect(stored).toEqual(given)
    })

    test.each([
      ['lock_timeout', '55P03'],
      ['statement_timeout', '57014'],
    ])('a push that takes longer than %s says why, under the code of the server', async (setting, code) => {
      const holder = await env.transaction()
      await env.lockstep.enqueue(testQueue.queue, { id: '0' }, { tx: holder })
      for (const given of [jobs(1), jobs(3)]) {
        const pushed = application.transaction(async (tx) => {
          await write(tx)
          await application.execute(tx, `SET LOCAL ${setting} = '50ms'`)
          const failed = await enqueue(tx, given).catch((error) => error)
          expect(codesOf(failed)).toContain(code)
          throw failed
        })
        await expect(pushed).rejects.toThrow()
      }
      await holder.query('ROLLBACK')
      await env.endSessions()
      await isStored(0)
    })

    test('a push that fails half way leaves nothing, even if its error is swallowed', async () => {
      const last = '4999'
      const holder = await env.transaction()
      await env.lockstep.enqueue(testQueue.queue, { id: last }, { tx: holder })
      const committed = application.transaction(async (tx) => {
        await write(tx)
        await application.execute(tx, `SET LOCAL lock_timeout = '50ms'`)
        const failed = await enqueue(tx, jobs(5_000)).catch((error) => error)
        expect(codesOf(failed)).toContain('55P03')
      })
      // Some libraries report that the server has rolled back instead.
      await committed.catch(() => {})
      await holder.query('ROLLBACK')
      await env.endSessions()
      await isStored(0)
    })

    test('a push into a queue that was deleted says so, though the library wraps its errors', async () => {
      const other = env.lockstepAnew()
      await other.enqueue(testQueue.queue, jobs(1))
      await env.lockstep.deleteQueue(testQueue.queue.name, { withJobs: true })
      const pushed = application.transaction((tx) => enqueue(tx, jobs(1), other))
      await expect(pushed).rejects.toMatchObject({ code: 'LOCKSTEP_CONFLICT' })
    })

    test('one that has ended is refused', async () => {
      let ended: unknown
      await application.transaction(async (tx) => {
        ended = tx
      })
      const { given, callback } = library.wording
      const message = callback
        ? `\`tx\` is ${given} that has ended: pass ${callback} hands to its callback, and await the call inside the callback`
        : expect.stringContaining('`tx` is a pg client that was released to its pool')
      for (const some of [jobs(1), jobs(3), jobs(2_500)]) {
        await expect(enqueue(ended, some)).rejects.toMatchObject({
          code: 'LOCKSTEP_BAD_TRANSACTION',
          message,
        })
      }
      await isStored(0)
    })

    test.each([1, 3, 2_500])('%i jobs in one that is READ ONLY are refused', async (count) => {
      const pushed = application.transaction(async (tx) => {
        await application.execute(tx, 'SET TRANSACTION READ ONLY')
        await enqueue(tx, jobs(count))
      })
      const { given, writable } = library.wording
      await expect(pushed).rejects.toMatchObject({
        code: 'LOCKSTEP_BAD_TRANSACTION',
        message: `\`tx\`, ${given}, is READ ONLY: ${writable}`,
      })
    })

    test.each([1, 3, 2_500])('%i jobs in one of another database are refused', async (count) => {
      const { connectionString, drop } = await createMigrated()
      const elsewhere = await library.open(connectionString)
      try {
        for (const lockstep of [env.lockstepAnew(), env.lockstep]) {
          const pushed = elsewhere.transaction((tx) => enqueue(tx, jobs(count), lockstep))
          await expect(pushed).rejects.toMatchObject({
            code: 'LOCKSTEP_BAD_TRANSACTION',
            message: expect.stringContaining('pass a transaction of that database'),
          })
        }
      } finally {
        await elsewhere.close()
        await drop()
      }
      await isStored(0)
    })

    test.each([1, 2_500])(
      '%i jobs in one of a database without the schema are refused, and it is named',
      async (count) => {
        const { connectionString, drop } = await createDatabase()
        const elsewhere = await library.open(connectionString)
        try {
          for (const lockstep of [env.lockstepAnew(), env.lockstep]) {
            const pushed = elsewhere.transaction((tx) => enqueue(tx, jobs(count), lockstep))
            await expect(pushed).rejects.toMatchObject({
              code: 'LOCKSTEP_BAD_TRANSACTION',
              message: expect.stringMatching(
                `^the transaction is in database "${new URL(connectionString).pathname.slice(1)}" on [^ ]+ without this release's schema, not in that of its Lockstep`,
              ),
            })
          }
        } finally {
          await elsewhere.close()
          await drop()
        }
        await isStored(0)
      },
    )

    test('what people pass by mistake is refused, and told what to pass', async () => {
      for (const [name, mistake] of Object.entries(application.mistakes)) {
        await expect(enqueue(mistake, jobs(1))).rejects.toMatchObject({
          code: 'LOCKSTEP_BAD_TRANSACTION',
          message: expect.stringMatching(new RegExp(`^\`tx\` is ${name}\\b.*: .*pass the`)),
        })
      }
      await isStored(0)
    })
  },
)

/** Of an error and its causes. */
function codesOf(error: unknown): unknown[] {
  return error instanceof Error ? [(error as { code?: unknown }).code, ...codesOf(error.cause)] : []
}
