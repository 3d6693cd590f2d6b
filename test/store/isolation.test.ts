import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { connect } from '../../src/postgres/connection.ts'
import { Database } from '../../src/postgres/database.ts'
import {
  type Board,
  openStage,
  outcomes,
  Player,
  pidOf,
  poolOn,
  type Stage,
  shown,
  untilBlocked,
} from '../support/rounds.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())
afterEach(() => stage.endSessions())

describe.each(['REPEATABLE READ', 'SERIALIZABLE'])('in a %s transaction', (level) => {
  const refused = {
    code: 'LOCKSTEP_ISOLATION',
    message: expect.stringMatching(
      `needs a READ COMMITTED transaction, not ${level}; Begin it with: BEGIN ISOL`,
    ),
  }

  test.each([
    ['claimed', (player: Player) => player.claim()],
    ['completed', (player: Player) => player.complete()],
    ['failed', (player: Player) => player.fail([])],
    ['released', (player: Player) => player.release()],
  ])('nothing is %s', async (_name, act) => {
    const board = await stage.queue()
    await board.push({ id: 'a' })
    const tx = await stage.transaction(`BEGIN ISOLATION LEVEL ${level}`)
    await tx.query('SAVEPOINT s')
    // Without the fallback: `on` speaks through this session's own transaction.
    const player = (await board.player()).on(tx)
    const call = act(new Player(board, player.processId, new CallInPlace(player.database)))
    await expect(call).rejects.toMatchObject(refused)
    await tx.query('ROLLBACK TO s; COMMIT')
    expect(await board.job('a')).toMatchObject({ claimed_by: null })
  })

  test('a completion in it is refused too', async () => {
    const board = await stage.queue()
    await board.push({ id: 'a' })
    const player = await board.player()
    const round = await player.take()
    const tx = await stage.transaction(`BEGIN ISOLATION LEVEL ${level}`)
    await expect(player.completeIn(tx, round)).rejects.toMatchObject(refused)
    await tx.query('ROLLBACK')
    expect(await player.complete(round)).toEqual([])
  })
})

/** Makes no transaction of its own when it is refused. */
class CallInPlace extends Database {
  constructor({ pool, schema }: Database) {
    super(pool, schema)
  }

  override alone<Row>(text: string, values: unknown[]): Promise<Row[]> {
    return this.query<Row>(text, values)
  }
}

describe.each(['repeatable read', 'serializable'])('where %s is the database’s default', (level) => {
  let board: Board
  let player: Player
  let lockstep: Lockstep
  let database: Database

  beforeAll(async () => {
    await stage.query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), '${level}'); END $$`,
    )
    const pool = poolOn(stage.connectionString)
    expect((await pool.query('SHOW transaction_isolation')).rows).toEqual([{ transaction_isolation: level }])
    database = new Database(pool, 'lockstep')
    lockstep = new Lockstep({ pool })
    board = await stage.queue({ batchSize: 10 })
    player = new Player(board, await stage.process(), database)
  })
  afterAll(() => database?.pool.end())

  test('rounds are played in READ COMMITTED all the same', async () => {
    const push = (score: number) => lockstep.enqueue(board.queue, { id: 'a', payload: 'v', score })
    await push(1)
    for (let score = 2; score < 5; score += 1) {
      const round = await player.take()
      await push(score)
      expect(outcomes(await player.complete(round))).toEqual(['a again'])
    }
    const last = await player.take()
    expect(shown([last])).toEqual(['a: v[4]'])
    await player.fail([last])
    await player.release(await player.take())
    expect(await player.complete(await player.take())).toEqual([])
    expect(await board.countPayloads()).toBe(0)
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
    const producer = await stage.transaction('BEGIN ISOLATION LEVEL READ COMMITTED')
    await board.pushIn(producer, { id: 'b', payload: 'v', score: 1 })
    const pool = poolOn(stage.connectionString, { max: 1 })
    const client = await pool.connect()
    const pid = await pidOf(client as never)
    client.release()
    const pushed = new Lockstep({ pool }).enqueue(board.queue, { id: 'b', payload: 'w', score: 2 })
    await untilBlocked(stage, pid)
    await producer.query('COMMIT')
    expect(await pushed).toBe(1)
    await pool.end()
    expect(await board.set('b')).toEqual(['v[1]', 'w[2]'])
  })

  test('sessions of our own are READ COMMITTED', async () => {
    const session = await connect({ connectionString: stage.connectionString })
    const { rows } = await session.query('SHOW transaction_isolation')
    expect(rows).toEqual([{ transaction_isolation: 'read committed' }])
    await session.end()
  })
})
