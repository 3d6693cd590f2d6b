import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Batch,
  defineQueue,
  type Queue,
  TimeoutError,
  type TransactionalContext,
  type Transactions,
} from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { readyToComplete } from '../../src/store/handler-transaction.ts'
import { ApplicationTransactions } from '../../src/worker/performing/application-transaction.ts'
import type { LentTransaction } from '../../src/worker/performing/lent-transaction.ts'
import { Abort } from '../../src/worker/performing/perform.ts'
import { createMigrated } from '../support/database.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const AN_HOUR = 3_600
let pool: pg.Pool

beforeAll(async () => {
  await env.sql('CREATE TABLE written (id text)')
  pool = poolOf(env.connectionString)
})
afterAll(() => pool?.end())

/** One that survives the end of its connections. */
function poolOf(connectionString: string): pg.Pool {
  const opened = new pg.Pool({ connectionString, max: 3 })
  opened.on('connect', (client) => client.on('error', () => {}))
  opened.on('error', () => {})
  return opened
}

type Client = pg.PoolClient
type Work = (tx: Client) => Promise<void>

/** An application's own way to run transactions. */
function through(
  run: (client: Client, work: Work) => Promise<unknown>,
  of = () => pool,
): Transactions<Client> {
  return {
    async transaction(work) {
      const client = await of().connect()
      try {
        return await run(client, work)
      } finally {
        client.release(true)
      }
    },
  }
}

function between(begin: string, commit: string, of = () => pool): Transactions<Client> {
  return through(async (client, work) => {
    await client.query(begin)
    try {
      await work(client)
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    }
    await client.query(commit)
  }, of)
}

type Perform = (batch: Batch<unknown>, context: TransactionalContext<Client>) => unknown
const write: Perform = (batch, { tx }) =>
  tx.query('INSERT INTO written SELECT unnest($1::text[])', [[...batch.keys()]])
const written = () => env.sql('DELETE FROM written RETURNING id')

function define(transactional: Transactions<Client>, perform: Perform = write, timeout?: number): Queue {
  return env.queue<Client>({ shards: 1, retryIn: () => AN_HOUR, timeout, transactional, perform })
}

async function failureOf(queue: Queue, id = 'poor') {
  const worker = await env.work({ queues: [queue], slots: 1 })
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id })
  return failed
}

const REFUSED: readonly (readonly [what: string, begin: string, told: RegExp])[] = [
  [
    'at REPEATABLE READ',
    'BEGIN ISOLATION LEVEL REPEATABLE READ',
    /must be READ COMMITTED, not REPEATABLE READ/,
  ],
  [
    'that are READ ONLY',
    'BEGIN READ ONLY',
    /gives its work, a Client, is READ ONLY: begin its transaction with BEGIN READ WRITE$/,
  ],
  ['that are none', 'SELECT', /is a pg client that is in no transaction: .* send BEGIN on it/],
]

test.each(REFUSED)(
  'transactions %s are refused before the handler, and nothing has failed',
  async (_, begin, told) => {
    const perform = vi.fn()
    await expectRefused(define(between(begin, 'COMMIT'), perform), told)
    expect(perform).not.toHaveBeenCalled()
  },
)

test('so are those of another database', async () => {
  const { connectionString, drop } = await createMigrated()
  const elsewhere = poolOf(connectionString)
  const perform = vi.fn()
  const queue = define(
    between('BEGIN', 'COMMIT', () => elsewhere),
    perform,
  )
  try {
    await expectRefused(queue, /is in database .*, not in that of its Lockstep/)
  } finally {
    await elsewhere.end()
    await drop()
  }
  expect(perform).not.toHaveBeenCalled()
})

test('so is what gives its work something else, or does not run it', async () => {
  const nothing = { transaction: (work: Work) => work({} as Client) }
  await expectRefused(define(nothing), /what `transactional` gives its work is an object: pass/)
  await expectRefused(define({ transaction: async () => {} }), /did not run its work/)
})

async function expectRefused(queue: Queue, told: RegExp): Promise<void> {
  const worker = await env.work({ queues: [queue], slots: 1 })
  const failed = vi.fn()
  worker.on('failed', failed)
  await env.lockstep.enqueue(queue, { id: 'refused' })
  await eventually(() =>
    expect(env.warnings.map(({ fields }) => String(Reflect.get(fields, 'error'))).join('\n')).toMatch(told),
  )
  await worker.stop()
  expect(failed).not.toHaveBeenCalled()
  expect(await env.job(queue, 'refused')).toMatchObject({ retry_count: -1, crashes: 0, claimed_by: null })
}

test('P3: one that is rolled back though its COMMIT succeeds is a failure, and its job is free', async () => {
  // The last statement fails unheard: the server answers COMMIT with ROLLBACK, which is no error.
  const deaf = through(async (client, work) => {
    await client.query('BEGIN')
    await work(client)
    await client.query('SELECT 1 / 0').catch(() => {})
    await client.query('COMMIT')
  })
  const queue = define(deaf)
  expect(await failureOf(queue)).toMatchObject({
    error: { message: expect.stringContaining('not committed') },
  })
  expect(await written()).toEqual([])
  expect(await env.job(queue, 'poor')).toMatchObject({ retry_count: 0, claimed_by: null })
})

test('R6: what a handler throws is its failure, even where its transactions swallow it', async () => {
  const swallowing = through(async (client, work) => {
    await client.query('BEGIN')
    await work(client).then(
      () => client.query('COMMIT'),
      () => client.query('ROLLBACK'),
    )
  })
  const thrown = new Error('no')
  const queue = define(swallowing, async (batch, context) => {
    await write(batch, context)
    throw thrown
  })
  expect(await failureOf(queue)).toMatchObject({ error: thrown, retryCount: 0 })
  expect(await written()).toEqual([])
})

test('R6: and where they throw something else', async () => {
  const wrapping = through(async (client, work) => {
    await client.query('BEGIN')
    await work(client).catch(async () => {
      await client.query('ROLLBACK')
      throw new Error('the library’s own')
    })
    await client.query('COMMIT')
  })
  const thrown = new Error('no')
  const queue = define(wrapping, () => {
    throw thrown
  })
  expect(await failureOf(queue)).toMatchObject({ error: thrown })
})

test('a transaction that runs its work twice fails, and nothing of the second run is stored', async () => {
  let rounds = 0
  const twice = through(async (client, work) => {
    for (const end of ['ROLLBACK', 'COMMIT']) {
      await client.query('BEGIN')
      await work(client)
      await client.query(end)
    }
  })
  const queue = define(twice, (batch, context) => {
    rounds += 1
    return write(batch, context)
  })
  expect(await failureOf(queue)).toMatchObject({
    error: { message: expect.stringContaining('its work twice') },
  })
  expect(rounds).toBe(1)
  expect(await written()).toEqual([])
})

test('R6: a COMMIT of the handler’s own is told beside what it throws', async () => {
  const queue = define(between('BEGIN', 'COMMIT'), async (batch, context) => {
    await write(batch, context)
    // A COMMIT alone would be refused.
    await context.tx.query('SELECT 1; COMMIT')
    throw new Error('no')
  })
  const { error } = await failureOf(queue)
  expect(error).toMatchObject({
    message: expect.stringMatching(/^no; and the handler ended its transaction itself/),
    cause: new Error('no'),
  })
  expect(await written()).toEqual([{ id: 'poor' }])
})

test.each(['in the handler', 'before the COMMIT'])(
  'R10: a connection that is lost %s counts a crash',
  async (when) => {
    const die = (client: Client) => client.query('SELECT pg_terminate_backend(pg_backend_pid())')
    const inHandler = when === 'in the handler'
    let lost = false
    const dieOnce = async (client: Client) => {
      if (lost) return
      lost = true
      await die(client).catch(() => {})
    }
    const transactions = through(async (client, work) => {
      await client.query('BEGIN')
      await work(client)
      if (!inHandler) await dieOnce(client)
      await client.query('COMMIT')
    })
    const crashes: number[] = []
    const queue = define(transactions, async (batch, context) => {
      crashes.push(context.jobs.get('lost')!.crashes)
      await write(batch, context)
      if (inHandler) await dieOnce(context.tx)
    })
    const worker = await env.work({ queues: [queue], slots: 1 })
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'lost' })
    await completed
    expect(crashes).toEqual([0, 1])
    expect(await written()).toEqual([{ id: 'lost' }])
  },
)

test('what a library says after its COMMIT changes nothing: the jobs are done', async () => {
  const hooked = through(async (client, work) => {
    await client.query('BEGIN')
    await work(client)
    await client.query('COMMIT')
    throw new Error('the mailer is down')
  })
  const queue = define(hooked)
  const worker = await env.work({ queues: [queue], slots: 1 })
  const told = vi.fn()
  worker.on('failed', told).on('refused', told)
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'done' })
  await completed
  expect(told).not.toHaveBeenCalled()
  expect(await written()).toEqual([{ id: 'done' }])
  expect(env.warnings).toContainEqual({
    fields: { error: 'the mailer is down' },
    message: expect.stringContaining('its library has failed afterwards'),
  })
})

test('P4: a COMMIT that the handler sends is refused, and commits nothing', async () => {
  const queue = define(between('BEGIN', 'COMMIT'), async (batch, context) => {
    await write(batch, context)
    await context.tx.query('COMMIT')
  })
  const { error } = await failureOf(queue)
  expect(String(error)).toMatch(/leave its BEGIN, COMMIT and ROLLBACK/)
  expect(await written()).toEqual([])
})

test.each([
  ['shows it', (client: Client) => client, 'is lent to the handler: leave its BEGIN'],
  [
    'hides it',
    (client: Client) => ({ query: client.query.bind(client) }) as Client,
    'in the transaction of another round',
  ],
])(
  'a connection that its library has given to two rounds is refused to the second one, if it %s',
  async (_, shown, told) => {
    const client = await pool.connect()
    const both = {
      transaction: async (work: Work) => {
        await client.query('BEGIN')
        await work(shown(client)).finally(() => client.query('COMMIT'))
      },
    }
    const began = new Gate()
    const gate = new Gate()
    const queue = define(both, async () => {
      began.open()
      await gate.opened
    })
    const worker = await env.work({ queues: [queue], slots: 2 })
    await env.lockstep.enqueue(queue, { id: 'first' })
    await began.opened
    await env.lockstep.enqueue(queue, { id: 'second' })
    await eventually(() => expect(JSON.stringify(env.warnings)).toContain(told))
    gate.open()
    await worker.stop()
    client.release()
  },
)

describe('a library that hangs', () => {
  const patience = { begin: 1_000, look: 100, commit: 400, rollback: 100 }
  const fake = (transactions: Transactions<Client>, work: (lent: LentTransaction) => Promise<string>) =>
    new ApplicationTransactions(database, env.logger, patience).run(
      transactions as Transactions<unknown>,
      work,
      new Abort(),
    )
  const never = new Promise<never>(() => {})
  let database: Database
  beforeAll(() => {
    database = new Database(env.pool, 'lockstep')
  })

  test('before it begins is given up, and nothing is performed in what begins later', async () => {
    const gate = new Gate()
    const work = vi.fn()
    let late: Promise<unknown> | undefined
    const slow = {
      transaction: (run: Work) => {
        late = gate.opened.then(() => between('BEGIN', 'COMMIT').transaction(run))
        return late
      },
    }
    await expect(fake(slow, work)).rejects.toThrow('does not begin')
    gate.open()
    await expect(late).rejects.toThrow('began too late')
    expect(work).not.toHaveBeenCalled()
  })

  test('after its COMMIT has committed', async () => {
    const hanging = through(async (client, work) => {
      await client.query('BEGIN')
      await work(client)
      await client.query('COMMIT')
      await Promise.race([never, gate.opened])
    })
    const gate = new Gate()
    env.later(() => gate.open())
    await expect(fake(hanging, completing)).resolves.toBe('stored')
    expect(JSON.stringify(env.warnings)).toContain('is not answered')
  })

  test('with its COMMIT not sent: that is a lost connection', async () => {
    const gate = new Gate()
    env.later(() => gate.open())
    const hanging = through(async (client, work) => {
      await client.query('BEGIN')
      await work(client)
      await gate.opened
    })
    await expect(fake(hanging, completing)).rejects.toMatchObject({ code: 'LOCKSTEP_CONNECTION' })
  })

  test('with its ROLLBACK: what the work threw is told', async () => {
    const gate = new Gate()
    env.later(() => gate.open())
    const hanging = through(async (client, work) => {
      await client.query('BEGIN')
      await work(client).catch(() => gate.opened)
    })
    await expect(fake(hanging, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  })

  test('no transaction that has begun waits for another connection, as behind a pooler that has no more', async () => {
    const one = new pg.Pool({ connectionString: env.connectionString, max: 1 })
    env.later(() => one.end())
    const transactions = new ApplicationTransactions(new Database(one, 'lockstep'), env.logger, patience)
    const all = between('BEGIN', 'COMMIT', () => one) as Transactions<unknown>
    await expect(transactions.run(all, completing, new Abort())).resolves.toBe('stored')
  })

  /** Does what the end of a round does. */
  async function completing(lent: LentTransaction): Promise<string> {
    lent.number = (await readyToComplete(lent.on, 100)).transaction
    return 'stored'
  }
})

test('R16: a statement that runs at the timeout ends with it, and so does a later one', async () => {
  const queue = define(
    between('BEGIN', 'COMMIT'),
    async (_, { tx }) => {
      await tx.query('SAVEPOINT before')
      await tx.query('SELECT pg_sleep(600)').catch(() => tx.query('ROLLBACK TO before'))
      await tx.query('SELECT pg_sleep(600)')
    },
    100,
  )
  expect(await failureOf(queue)).toMatchObject({ error: expect.any(TimeoutError) })
})

test('a session that does something else by then is left alone', async () => {
  const one = new pg.Pool({ connectionString: env.connectionString, max: 1 })
  env.later(() => one.end())
  const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve))
  const queue = define({ transaction: (work) => onOne(one, work) }, (_, { signal }) => aborted(signal), 50)
  // The handler ends with its signal, so the attempt to cancel comes when its transaction has ended, or a moment before.
  const failed = failureOf(queue)
  await expect(failed.then(() => one.query('SELECT pg_sleep(1.2)'))).resolves.toBeDefined()
})

/** Gives the session back as soon as the transaction has ended. */
async function onOne(one: pg.Pool, work: Work): Promise<void> {
  const client = await one.connect()
  try {
    await client.query('BEGIN')
    await work(client)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

test('what is no way to run transactions is refused when the queue is defined', () => {
  for (const given of [pool, {}, 'BEGIN', 1])
    expect(() => defineQueue('wrong', { transactional: given as never })).toThrow(
      /^queue "wrong": transactional must be true, false, or what transactionsOf/,
    )
})

test('transactions that throw what can’t even be looked at are tried again, and the worker goes on', async () => {
  let tries = 0
  const transactional = between('BEGIN', 'COMMIT')
  const queue = defineQueue(`unreadable ${Date.now()}`, {
    retryIn: () => 0,
    transactional: {
      transaction(work) {
        tries += 1
        if (tries > 1) return transactional.transaction(work)
        const { proxy, revoke } = Proxy.revocable({}, {})
        revoke()
        throw proxy
      },
    } satisfies Transactions<Client>,
    perform() {},
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await env.work({ queues: [queue], poll: 100 })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(tries).toBeGreaterThan(1)
})
