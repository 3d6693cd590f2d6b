import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Claimer,
  openStore,
  pidOf,
  type StoreEnvironment,
  shown,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue
let claimer: Claimer

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  claimer = await testQueue.claimer()
})
afterEach(() => env.endSessions())

describe('P4 an enqueue in a transaction', () => {
  test('exists when that commits, and not before', async () => {
    const tx = await env.transaction()
    await testQueue.pushIn(tx, { id: 'a', payload: 'v', score: 1 })
    expect(await testQueue.countJobs()).toBe(0)
    expect((await claimer.claim()).rounds).toEqual([])
    await tx.query('COMMIT')
    expect(shown([await claimer.take()])).toEqual(['a: v[1]'])
  })

  test('leaves nothing when that rolls back', async () => {
    await testQueue.push({ id: 'waiting', payload: 'v', score: 5, performIn: 1_000 }, { id: 'working' })
    const { rounds } = await claimer.claim({ cursor: { after: 2_000_000, afterId: '' } })
    expect(rounds.map(({ id }) => id)).toEqual(['working'])
    const tx = await env.transaction()
    await testQueue.pushIn(
      tx,
      { id: 'new' },
      { id: 'waiting', payload: 'v', score: 1 },
      { id: 'waiting', payload: 'w' },
      { id: 'working', payload: 'w' },
    )
    await tx.query('ROLLBACK')
    expect(await testQueue.findJob('new')).toBeUndefined()
    expect(await testQueue.set('waiting')).toEqual(['v[5]'])
    expect(await testQueue.job('working')).toMatchObject({ nextPerformIn: null })
    expect(await claimer.complete(...rounds)).toEqual([])
  })

  test('goes with the savepoint it was made in', async () => {
    const tx = await env.transaction()
    await testQueue.pushIn(tx, { id: 'kept' })
    await tx.query('SAVEPOINT s')
    await testQueue.pushIn(tx, { id: 'undone' })
    await tx.query('ROLLBACK TO s; COMMIT')
    expect(await testQueue.countJobs()).toBe(1)
    expect(await testQueue.findJob('kept')).toBeDefined()
  })
})

describe('two open transactions that push', () => {
  test('one id wait for each other, and both are handed over', async () => {
    const [one, two] = [await env.transaction(), await env.transaction()]
    const pid = await pidOf(two)
    await testQueue.pushIn(one, { id: 'a', payload: 'v', score: 1 })
    const pushed = testQueue.pushIn(two, { id: 'a', payload: 'w', score: 2 })
    await untilBlocked(env, pid)
    await one.query('COMMIT')
    await pushed
    await two.query('COMMIT')
    expect(await testQueue.set('a')).toEqual(['v[1]', 'w[2]'])
  })

  test('other ids of one queue do not', async () => {
    const [one, two] = [await env.transaction(), await env.transaction()]
    await testQueue.pushIn(one, { id: 'a' })
    await testQueue.pushIn(two, { id: 'b' })
    await Promise.all([one.query('COMMIT'), two.query('COMMIT')])
    expect(await testQueue.countJobs()).toBe(2)
  })

  // If the pushes took their locks in the given order, `middle` would make each hold what the other wants.
  const IDS = ['a', 'B', 'b', 'é', 'm', 'z', 'Z', '\u{1f600}', '\uff5e']
  test.each([
    ['new ids', false],
    ['waiting ids', true],
  ])('the same ids in opposite order can’t deadlock: %s', async (_name, waiting) => {
    if (waiting) await testQueue.push(...IDS.map((id) => ({ id, payload: 'before' })))
    const middle = await env.transaction()
    await testQueue.pushIn(middle, { id: 'm' })
    const arrays = [IDS, IDS.toReversed()]
    const pushes = []
    for (const ids of arrays) {
      const session = await env.session()
      const pid = await pidOf(session)
      const rows = ids.map(() => null)
      const values = [testQueue.queue.name, ids, rows, rows, rows, rows]
      pushes.push(session.query('SELECT lockstep.enqueue_many($1, $2, $3, $4, $5, $6)', values))
      await untilBlocked(env, pid)
    }
    await middle.query('COMMIT')
    await Promise.all(pushes)
    expect(await testQueue.countJobs()).toBe(IDS.length)
  })

  test('some new and some waiting can’t deadlock: who waits for an id has locked none behind it', async () => {
    // With two payloads, its row is only locked, and not written, by a push.
    await testQueue.push({ id: 'a', payload: 'before' }, { id: 'a', payload: 'too' })
    const [one, two] = [await env.transaction(), await env.transaction()]
    const pid = await pidOf(two)
    await testQueue.pushIn(one, { id: 'a' })
    const pushed = testQueue.pushIn(two, { id: 'a' }, { id: 'b' })
    await untilBlocked(env, pid)
    await testQueue.pushIn(one, { id: 'b' }, { id: 'c' })
    await one.query('COMMIT')
    await pushed
    await two.query('COMMIT')
    expect(await testQueue.countJobs()).toBe(3)
  })

  test('thousands of the same ids in opposite order, in several statements, can’t deadlock either', async () => {
    const jobs = Array.from({ length: 2_500 }, (_, i) => ({ id: `${i}` }))
    const middle = await env.transaction()
    await testQueue.pushIn(middle, { id: '55' })
    const transactions = [await env.transaction(), await env.transaction()]
    const pushes = []
    for (const [index, tx] of transactions.entries()) {
      const pid = await pidOf(tx)
      pushes.push(testQueue.pushIn(tx, ...(index ? jobs.toReversed() : jobs)).then(() => tx.query('COMMIT')))
      await untilBlocked(env, pid)
    }
    await middle.query('COMMIT')
    await Promise.all(pushes)
    expect(await testQueue.countJobs()).toBe(2_500)
  })
})

describe.each(['REPEATABLE READ', 'SERIALIZABLE'])('P3 a producer at %s', (level) => {
  const conflict = { name: 'DatabaseError', code: 'LOCKSTEP_CONFLICT' }
  /** A transaction that has taken its snapshot. */
  const begin = async () => {
    const tx = await env.transaction(`BEGIN ISOLATION LEVEL ${level}`)
    await tx.query('SELECT FROM lockstep.jobs')
    return tx
  }

  test('pushes new and waiting ids', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 2 })
    const tx = await begin()
    await testQueue.pushIn(tx, { id: 'a', payload: 'w', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    await tx.query('COMMIT')
    expect(await testQueue.set('a')).toEqual(['w[1]', 'v[2]'])
    expect(await testQueue.set('b')).toEqual(['v[1]'])
  })

  test('gets a conflict for a job it can’t see, and stores nothing', async () => {
    const tx = await begin()
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    await expect(testQueue.pushIn(tx, { id: 'a', payload: 'w' })).rejects.toMatchObject(conflict)
    await tx.query('ROLLBACK')
    expect(await testQueue.set('a')).toEqual(['v[1]'])
  })

  test('gets a conflict for a job that was claimed meanwhile: its fence would be the old one', async () => {
    await testQueue.push({ id: 'a', payload: 'v' })
    const tx = await begin()
    const round = await claimer.take()
    await expect(testQueue.pushIn(tx, { id: 'a', payload: 'w' })).rejects.toMatchObject(conflict)
    await tx.query('ROLLBACK')
    expect(await claimer.complete(round)).toEqual([])
  })

  test('pushes while the id is in work', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const round = await claimer.take()
    const tx = await begin()
    await testQueue.pushIn(tx, { id: 'a', payload: 'v', score: 2 })
    await tx.query('COMMIT')
    await claimer.complete(round)
    expect(shown([await claimer.take()])).toEqual(['a: v[2]'])
  })

  test.each([
    ['alone', [{ id: 'a', payload: 'w', score: 2 }]],
    [
      'beside one that waits',
      [
        { id: 'a', payload: 'w', score: 2 },
        { id: 'b', payload: 'w' },
      ],
    ],
    [
      'with a payload that equals its last one',
      [
        { id: 'a', payload: 'w', score: 2 },
        { id: 'a', payload: 'v', score: 3 },
      ],
    ],
  ])(
    'stores once what it pushes for a job it still sees though it has been finished, %s',
    async (_, jobs) => {
      await testQueue.push({ id: 'a', payload: 'v', score: 1 })
      await testQueue.push(
        { id: 'a', payload: 'x', score: 1 },
        { id: 'b', performIn: Date.now() + 3_600_000 },
      )
      const tx = await begin()
      await claimer.complete(await claimer.take())
      const stored = await testQueue.pushIn(tx, ...jobs).then(
        () => tx.query('COMMIT').then(() => true),
        (error) => {
          expect(error).toMatchObject(conflict)
          return false
        },
      )
      await env.endSessions()
      if (!stored) await testQueue.push(...jobs)
      const round = await claimer.take()
      const pushed = jobs.filter(({ id }) => id === 'a').map(({ payload, score }) => `${payload}[${score}]`)
      expect(shown([round])).toEqual([`a: ${pushed.join(' ')}`])
      expect(await claimer.complete(round)).toEqual([])
      expect(await testQueue.countPayloads('a')).toBe(0)
    },
  )
})
