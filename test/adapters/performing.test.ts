import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Batch,
  defineQueue,
  type EnqueueTransaction,
  type Queue,
  TimeoutError,
  type TransactionalContext,
  type Transactions,
} from '../../src/index.ts'
import { createMigrated } from '../support/database.ts'
import {
  eventually,
  Gate,
  next,
  type TransactionalPerform,
  useWorkers,
} from '../support/worker-environment.ts'
import type { AnyLibrary, Application } from './adapter.ts'
import type { KilledOptions } from './killed.ts'
import { LIBRARIES_HERE } from './libraries.ts'
import { titleOf } from './versions.ts'

const env = useWorkers()
const AN_HOUR = 3_600

const killedQueueOf = ({ name }: AnyLibrary) => `killed ${name}`

beforeAll(async () => {
  await env.sql('CREATE TABLE written (id text, payload text); CREATE TABLE killed (queue text)')
  await killOne()
}, 60_000)

/** Has a process killed when a transaction with each library waits for nothing but its COMMIT. */
async function killOne(): Promise<void> {
  const queues = Object.fromEntries(LIBRARIES_HERE.map((library) => [library.name, killedQueueOf(library)]))
  for (const name of Object.values(queues)) await env.lockstep.enqueue(defineQueue(name), { id: 'one' })
  const child = fork(new URL('./killed.ts', import.meta.url), [], { execArgv: ['--import', 'tsx'] })
  child.send({ connectionString: env.connectionString, queues } satisfies KilledOptions)
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
}

/** Ends the sessions whose transactions have written to a table, and waits a moment, in which their clients notice. */
async function endSessionsOf(table: string): Promise<void> {
  await env.sql(
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE relation = $1::regclass AND mode = 'RowExclusiveLock'`,
    [table],
  )
  await sleep(50)
}

type Tx = EnqueueTransaction
type Perform = (batch: Batch<unknown>, context: TransactionalContext<Tx>) => unknown

/** Those whose `pg` client the worker can keep from ending the transaction. */
const SHOW_THEIR_CLIENT = ['Drizzle on node-postgres', 'Knex', 'TypeORM', 'Sequelize']

describe.each(LIBRARIES_HERE.map((library) => [titleOf(library, 'in handlers'), library] as const))(
  '%s',
  (_, library) => {
    let application: Application<Tx>
    beforeAll(async () => {
      application = await library.open(env.connectionString)
    })
    afterAll(() => application?.close())

    const write = (batch: Batch<unknown>, tx: Tx) =>
      application.execute(
        tx,
        `INSERT INTO written VALUES ${[...batch].map(([id, [payload]]) => `('${id}', '${payload}')`).join(', ')}`,
      )
    const define = (perform: Perform, options: { batchSize?: number; timeout?: number } = {}): Queue => {
      const { transactions: transactional } = application
      const defined = { shards: 1, retryIn: () => AN_HOUR, ...options, perform }
      return transactional
        ? env.queue<Tx>({ ...defined, transactional })
        : env.transactional({ ...defined, perform: perform as TransactionalPerform })
    }
    /** Performs one job of the queue, and resolves to its failure. */
    const failureOf = async (queue: Queue) => {
      const worker = await env.work({ queues: [queue], slots: 1 })
      const failed = next(worker, 'failed')
      await env.lockstep.enqueue(queue, { id: 'poor' })
      return failed
    }
    const written = async () =>
      (await env.sql<{ id: string }>('DELETE FROM written RETURNING id')).map(({ id }) => id).sort()

    test('the handler’s writes and the completion become visible together', async () => {
      const gate = new Gate()
      const begun = new Gate()
      const queue = define(async (batch, { tx }) => {
        await write(batch, tx)
        begun.open()
        await gate.opened
      })
      const worker = await env.work({ queues: [queue], slots: 1 })
      await env.lockstep.enqueue(queue, { id: 'ü', payload: 1 })
      await begun.opened
      expect(await env.sql('SELECT FROM written')).toHaveLength(0)
      expect(await env.jobs(queue)).toBe(1)
      const completed = next(worker, 'completed')
      gate.open()
      expect(await completed).toMatchObject({ ids: ['ü'] })
      expect(await written()).toEqual(['ü'])
      expect(await env.jobs(queue)).toBe(0)
    })

    test('a handler that throws leaves no writes', async () => {
      const queue = define(async (batch, { tx }) => {
        await write(batch, tx)
        throw new Error('no')
      })
      expect(await failureOf(queue)).toMatchObject({ error: new Error('no'), retryCount: 0 })
      expect(await written()).toEqual([])
      expect(await env.job(queue, 'poor')).toMatchObject({ retry_count: 0, claimed_by: null })
    })

    test('one id of a batch fails, and what was pushed meanwhile waits', async () => {
      const queue = define(
        async (batch, { tx, fail }) => {
          await write(new Map([['good', batch.get('good')!]]), tx)
          await env.lockstep.enqueue(queue, { id: 'good', payload: 'later', performIn: Date.now() + 9e6 })
          fail('bad', new Error('schlecht: 😀'))
        },
        { batchSize: 2 },
      )
      await env.lockstep.enqueue(queue, [{ id: 'good' }, { id: 'bad' }])
      const worker = env.create({ queues: [queue], slots: 1 })
      const ends = [next(worker, 'failed'), next(worker, 'completed')]
      await worker.start()
      await Promise.all(ends)
      expect(await written()).toEqual(['good'])
      expect(await env.job(queue, 'good')).toMatchObject({ retry_count: -1, claimed_by: null })
      expect(await env.job(queue, 'bad')).toMatchObject({
        retry_count: 0,
        claimed_by: null,
        error: expect.stringContaining('schlecht: 😀'),
      })
    })

    test('jobs that it pushes in its transaction exist if it succeeds', async () => {
      const other = env.queue({})
      let fails = true
      const queue = define(async (_, { tx }) => {
        await env.lockstep.enqueue(other, { id: 'next' }, { tx })
        if (fails) throw new Error('no')
      })
      await failureOf(queue)
      expect(await env.jobs(other)).toBe(0)
      fails = false
      await env.lockstep.performNow(queue, {})
      await eventually(async () => expect(await env.jobs(other)).toBe(1))
    })

    test('while a producer holds the row, it is performed again, and has not failed', {
      tags: 'slow',
    }, async () => {
      const started = new Gate()
      const held = new Gate()
      let rounds = 0
      const queue = define(async (batch, { tx }) => {
        rounds += 1
        await write(batch, tx)
        started.open()
        await held.opened
      })
      const worker = await env.work({ queues: [queue], slots: 1 })
      const failed = vi.fn()
      worker.on('failed', failed)
      await env.lockstep.enqueue(queue, { id: 'held', payload: 1 })
      await started.opened
      const producer = await env.session()
      await producer.query('BEGIN')
      await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'held', '2'])
      held.open()
      const completions = () =>
        env.sql(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%complete(%'`)
      await eventually(async () => expect(await completions()).toHaveLength(1))
      await eventually(async () => expect(await completions()).toHaveLength(0))
      expect(await env.sql('SELECT FROM written')).toHaveLength(0)
      await producer.query('COMMIT')
      await eventually(async () => expect(await env.jobs(queue)).toBe(0))
      expect(rounds).toBeGreaterThan(1)
      expect(failed).not.toHaveBeenCalled()
      expect(new Set(await written())).toEqual(new Set(['held']))
    })

    test.each(['COMMIT', 'ROLLBACK'])('a %s of its own is told, also beside what it throws', async (text) => {
      for (const thrown of [undefined, new Error('no')]) {
        const queue = define(async (_, { tx }) => {
          await application.execute(tx, `${'SELECT 1'}; ${text}`).catch(() => application.execute(tx, text))
          if (thrown) throw thrown
        })
        const { error } = await failureOf(queue)
        expect(String(error)).toMatch(/leave (its BEGIN, )?COMMIT/)
        if (thrown) expect(String(error)).toMatch(/no; and/)
        expect(await env.job(queue, 'poor')).toMatchObject({ retry_count: 0, claimed_by: null })
      }
    })

    test('P4: what it sends to begin or end a transaction is refused, and nothing is committed early', async ({
      skip,
    }) => {
      if (!SHOW_THEIR_CLIENT.includes(library.name)) return skip('its client is its own')
      for (const text of ['BEGIN', 'COMMIT', '/* now */ end', 'ROLLBACK']) {
        const queue = define(async (batch, { tx }) => {
          await write(batch, tx)
          await application.execute(tx, text)
        })
        const { error } = await failureOf(queue)
        // Drizzle puts the statement in front.
        expect(`${error} ${(error as Error).cause}`).toMatch(/leave its BEGIN, COMMIT and ROLLBACK/)
        expect(await written()).toEqual([])
      }
    })

    test('a savepoint that is rolled back takes its own writes along, no others', async ({ skip }) => {
      const { nested } = application
      if (!nested) return skip('its savepoints are statements of its own')
      const queue = define(async (batch, { tx }) => {
        await write(batch, tx)
        const inner = nested(tx, async (savepoint) => {
          await write(new Map([['inner', [1]]]), savepoint)
          throw new Error('rolled back')
        })
        await expect(inner).rejects.toThrow('rolled back')
      })
      const worker = await env.work({ queues: [queue], slots: 1 })
      const completed = next(worker, 'completed')
      await env.lockstep.enqueue(queue, { id: 'outer' })
      await completed
      expect(await written()).toEqual(['outer'])
    })

    test('a failed statement that it swallows fails it, as nothing could be stored', async () => {
      const queue = define(async (_, { tx }) => {
        await Promise.resolve(application.execute(tx, 'SELECT 1 / 0')).catch(() => {})
      })
      const { error } = await failureOf(queue)
      expect(String(error)).toMatch(/left its transaction aborted/)
      expect(await env.job(queue, 'poor')).toMatchObject({ retry_count: 0, claimed_by: null })
    })

    test('a statement that runs at the timeout ends with it', { tags: 'slow' }, async () => {
      const queue = define(
        async (batch, { tx }) => {
          await write(batch, tx)
          await application.execute(tx, 'SELECT pg_sleep(600)')
        },
        { timeout: 200 },
      )
      expect(await failureOf(queue)).toMatchObject({ error: expect.any(TimeoutError), retryCount: 0 })
      expect(await written()).toEqual([])
    })

    test('R10: a session that ends under its handler counts a crash, and nothing of the first run is there', async () => {
      const crashes: number[] = []
      const queue = define(async (batch, { tx, jobs }) => {
        crashes.push(jobs.get('lost')!.crashes)
        await write(batch, tx)
        if (crashes.length > 1) return
        await endSessionsOf('written')
        await write(batch, tx).catch(() => {})
      })
      const worker = await env.work({ queues: [queue], slots: 1 })
      const completed = next(worker, 'completed')
      await env.lockstep.enqueue(queue, { id: 'lost' })
      await completed
      expect(crashes).toEqual([0, 1])
      expect(await written()).toEqual(['lost'])
    })

    test('its own time-outs don’t apply to the completion, but to what is checked at the COMMIT', async () => {
      await env.sql(`
        CREATE TABLE IF NOT EXISTS timed (lock text, statement text);
        CREATE OR REPLACE FUNCTION note_timeouts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO timed VALUES (current_setting('lock_timeout'), current_setting('statement_timeout'));
          RETURN NULL;
        END $$;
        CREATE TABLE IF NOT EXISTS checked (one int);
        DROP TRIGGER IF EXISTS checking ON checked;
        CREATE CONSTRAINT TRIGGER checking AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION note_timeouts()`)
      const queue = define(async (_, { tx }) => {
        await application.execute(tx, `SET LOCAL lock_timeout = '7s'`)
        await application.execute(tx, `SET LOCAL statement_timeout = '8s'`)
        await application.execute(tx, 'INSERT INTO checked VALUES (1)')
      })
      const worker = await env.work({ queues: [queue], slots: 1 })
      const completed = next(worker, 'completed')
      await env.lockstep.enqueue(queue, { id: 'timed' })
      await completed
      expect(await env.sql('DELETE FROM timed RETURNING *')).toEqual([{ lock: '7s', statement: '8s' }])
    })

    test('what the server refuses at the COMMIT is a failure', async () => {
      await env.sql(`
        CREATE TABLE IF NOT EXISTS deferred (one int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
      const queue = define(async (batch, { tx }) => {
        await write(batch, tx)
        await application.execute(tx, 'INSERT INTO deferred VALUES (1), (1)')
      })
      await failureOf(queue)
      expect(await written()).toEqual([])
      expect(await env.job(queue, 'poor')).toMatchObject({
        retry_count: 0,
        claimed_by: null,
        error: expect.stringMatching(/duplicate key|unique ?constraint/i),
      })
    })

    test('transactions of another database are refused before the handler', async ({ skip }) => {
      if (!application.transactions) return skip('the worker’s own are of its database')
      const { connectionString, drop } = await createMigrated()
      const elsewhere = await library.open(connectionString)
      const perform = vi.fn()
      const queue = env.queue<Tx>({ shards: 1, transactional: elsewhere.transactions!, perform })
      try {
        const worker = await env.work({ queues: [queue], slots: 1 })
        await env.lockstep.enqueue(queue, { id: 'astray' })
        await eventually(() => expect(JSON.stringify(env.warnings)).toMatch(/not in that of its Lockstep/))
        await worker.stop()
        expect(await env.job(queue, 'astray')).toMatchObject({
          retry_count: -1,
          crashes: 0,
          claimed_by: null,
        })
        expect(perform).not.toHaveBeenCalled()
      } finally {
        await elsewhere.close()
        await drop()
      }
    })

    test('of a process that is killed before its COMMIT nothing is there, and the job is performed again', async () => {
      const name = killedQueueOf(library)
      const killed = () => env.sql('SELECT FROM killed WHERE queue = $1', [name])
      expect(await killed()).toHaveLength(0)
      const perform: Perform = async (_, { tx }) =>
        application.execute(tx, `INSERT INTO killed VALUES ('${name}')`)
      const { transactions } = application
      const queue = transactions
        ? defineQueue(name, { transactional: transactions as Transactions<Tx>, perform })
        : defineQueue(name, { transactional: true, perform: perform as TransactionalPerform })
      const worker = env.create({ queues: [queue], slots: 1 })
      const completed = next(worker, 'completed')
      await worker.start()
      await completed
      expect(await killed()).toHaveLength(1)
      expect(await env.jobs(queue)).toBe(0)
    })
  },
)
