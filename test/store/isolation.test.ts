import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { connect } from '../../src/postgres/connection.ts'
import { Database } from '../../src/postgres/database.ts'
import {
  Claimer,
  openStore,
  outcomes,
  pidOf,
  poolOn,
  type StoreEnvironment,
  shown,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

describe.each(['REPEATABLE READ', 'SERIALIZABLE'])('in a %s transaction', (level) => {
  const refused = {
    code: 'LOCKSTEP_ISOLATION',
    message: expect.stringMatching(
      `needs a READ COMMITTED transaction, not ${level}; begin it with: BEGIN ISOL`,
    ),
  }

  test.each([
    ['claimed', (claimer: Claimer) => claimer.claim()],
    ['completed', (claimer: Claimer) => claimer.complete()],
    ['failed', (claimer: Claimer) => claimer.fail([])],
    ['released', (claimer: Claimer) => claimer.release()],
  ])('nothing is %s', async (_name, act) => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a' })
    const tx = await env.transaction(`BEGIN ISOLATION LEVEL ${level}`)
    await tx.query('SAVEPOINT s')
    // Without the fallback, since `on` uses this session's own transaction.
    const claimer = (await testQueue.claimer()).on(tx)
    const call = act(new Claimer(testQueue, claimer.processId, new CallInPlace(claimer.database)))
    await expect(call).rejects.toMatchObject(refused)
    await tx.query('ROLLBACK TO s; COMMIT')
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null })
  })

  test('a completion in it is refused too', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a' })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    const tx = await env.transaction(`BEGIN ISOLATION LEVEL ${level}`)
    await expect(claimer.completeIn(tx, round)).rejects.toMatchObject(refused)
    await tx.query('ROLLBACK')
    expect(await claimer.complete(round)).toEqual([])
  })
})

/** Begins no transaction of its own when it is refused. */
class CallInPlace extends Database {
  constructor({ pool, schema }: Database) {
    super(pool, schema)
  }

  override alone<Row>(text: string, values: unknown[]): Promise<Row[]> {
    return this.query<Row>(text, values)
  }
}

describe.each(['repeatable read', 'serializable'])('where %s is the database’s default', (level) => {
  let testQueue: TestQueue
  let claimer: Claimer
  let lockstep: Lockstep
  let database: Database

  beforeAll(async () => {
    await env.query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), '${level}'); END $$`,
    )
    const pool = poolOn(env.connectionString)
    expect((await pool.query('SHOW transaction_isolation')).rows).toEqual([{ transaction_isolation: level }])
    database = new Database(pool, 'lockstep')
    lockstep = new Lockstep({ pool })
    testQueue = await env.queue({ batchSize: 10 })
    claimer = new Claimer(testQueue, await env.process(), database)
  })
  afterAll(() => database?.pool.end())

  test('rounds are played in READ COMMITTED all the same', async () => {
    const push = (score: number) => lockstep.enqueue(testQueue.queue, { id: 'a', payload: 'v', score })
    await push(1)
    for (let score = 2; score < 5; score += 1) {
      const round = await claimer.take()
      await push(score)
      expect(outcomes(await claimer.complete(round))).toEqual(['a again'])
    }
    const last = await claimer.take()
    expect(shown([last])).toEqual(['a: v[4]'])
    await claimer.fail([last])
    await claimer.release(await claimer.take())
    expect(await claimer.complete(await claimer.take())).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('a failed call leaves no transaction open on the pool', async () => {
    await expect(database.call('claim', ['not a number'])).rejects.toThrow()
    await expect(database.transaction((client) => client.query('SELECT 1 / 0'))).rejects.toThrow('division')
    const { rows } = await database.pool.query(
      `SELECT count(*)::integer AS open FROM pg_stat_activity
       WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
    )
    expect(rows).toEqual([{ open: 0 }])
  })

  test('a push on a pool gets no conflict: the transaction is ours, not the caller’s', async () => {
    const producer = await env.transaction('BEGIN ISOLATION LEVEL READ COMMITTED')
    await testQueue.pushIn(producer, { id: 'b', payload: 'v', score: 1 })
    const pool = poolOn(env.connectionString, { max: 1 })
    const client = await pool.connect()
    const pid = await pidOf(client as never)
    client.release()
    const pushed = new Lockstep({ pool }).enqueue(testQueue.queue, { id: 'b', payload: 'w', score: 2 })
    await untilBlocked(env, pid)
    await producer.query('COMMIT')
    expect(await pushed).toBe(1)
    await pool.end()
    expect(await testQueue.set('b')).toEqual(['v[1]', 'w[2]'])
  })

  test('sessions of our own are READ COMMITTED', async () => {
    const session = await connect({ connectionString: env.connectionString })
    const { rows } = await session.query('SHOW transaction_isolation')
    expect(rows).toEqual([{ transaction_isolation: 'read committed' }])
    await session.end()
  })
})
