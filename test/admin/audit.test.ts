import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Lockstep, type Logger } from '../../src/index.ts'
import { trimAudit } from '../../src/store/audit.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(async () => {
  await env.query('DELETE FROM lockstep.audit')
  await env.endSessions()
})
afterAll(() => env?.close())

async function start(count: number): Promise<TestQueue> {
  const testQueue = await env.queue()
  await testQueue.push(...Array.from({ length: count }, (_, n) => ({ id: `job ${n}`, payload: n })))
  return testQueue
}

/** What was recorded, the first action first. */
async function entries() {
  return (await env.lockstep.audit()).reverse()
}

describe('an action of a person who is named', () => {
  test('is recorded with what it did: each of them', async () => {
    const { queue } = await start(3)
    const { name } = queue
    const by = 'anna'
    await env.lockstep.pause(queue, { by })
    await env.lockstep.resume(name, { by })
    await env.lockstep.performNow(queue, { ids: ['job 0'] }, { by })
    await env.lockstep.kill(queue, { id: { from: 'job 1' }, performIn: { to: new Date(8.64e15) } }, { by })
    await env.lockstep.requeue(queue, { ids: ['job 1'], score: { to: Number.POSITIVE_INFINITY } }, { by })
    await env.lockstep.deleteDead(queue, {}, { by })
    await env.lockstep.delete(queue, {}, { by })
    await env.lockstep.reshard(queue, 3, { by })
    await env.lockstep.deleteQueue(queue, { by })
    const [{ role }] = (await env.query('SELECT session_user AS role')) as [{ role: string }]
    const ended = { by, role, queue: name, beganAt: expect.any(Date), endedAt: expect.any(Date), error: null }
    const told = (id: number, action: string, affected: number | null, details: object) => ({
      ...{ id, ...ended, action, affected, details },
    })
    expect(await entries()).toEqual([
      told(1, 'pause', null, {}),
      told(2, 'resume', null, {}),
      told(3, 'performNow', 1, { ids: ['job 0'] }),
      told(4, 'kill', 2, { id: { from: 'job 1' }, performIn: { to: '+275760-09-13T00:00:00.000Z' } }),
      told(5, 'requeue', 1, { ids: ['job 1'], score: { to: 'Infinity' } }),
      told(6, 'deleteDead', 1, {}),
      told(7, 'delete', 2, {}),
      told(8, 'reshard', 0, { shards: 3 }),
      told(9, 'deleteQueue', 0, { withJobs: false }),
    ])
    for (const { beganAt, endedAt } of await entries())
      expect(endedAt!.getTime()).toBeGreaterThanOrEqual(beganAt.getTime())
  })

  test('is recorded before it begins, by the first that is done; otherwise nothing is', async () => {
    const { queue } = await start(2)
    const action = env.lockstep.delete(queue, {}, { by: 'anna', chunk: 1 })
    expect(await entries()).toEqual([])
    const steps = action[Symbol.asyncIterator]()
    await steps.next()
    expect(await entries()).toMatchObject([{ endedAt: null, affected: null, error: null }])
    await steps.next()
    await steps.return!()
    expect(await entries()).toMatchObject([
      { endedAt: expect.any(Date), affected: 1, error: 'stopped by the caller' },
    ])
    await env.lockstep.delete(queue, {})
    expect(await entries()).toHaveLength(1)
  })

  test('is recorded with why it failed or was stopped', async () => {
    const { queue } = await start(2)
    const by = 'anna'
    await expect(env.lockstep.kill('nowhere', {}, { by })).rejects.toThrow('does not exist')
    await expect(env.lockstep.pause('nowhere', { by })).rejects.toThrow('does not exist')
    const abort = new AbortController()
    const action = env.lockstep.delete(queue, {}, { by, chunk: 1, signal: abort.signal })
    await expect(
      (async () => {
        for await (const { done } of action) if (done === 1) abort.abort(new Error('enough'))
      })(),
    ).rejects.toThrow('enough')
    await expect(env.lockstep.deleteQueue(queue, { by })).rejects.toThrow('is not empty')
    const unknown = expect.stringMatching(/^LOCKSTEP_UNKNOWN_QUEUE: queue "nowhere" does not exist/)
    expect(await entries()).toMatchObject([
      { queue: 'nowhere', action: 'kill', affected: 0, error: unknown, endedAt: expect.any(Date) },
      { queue: 'nowhere', action: 'pause', affected: null, error: unknown, endedAt: expect.any(Date) },
      { action: 'delete', affected: 1, error: 'enough' },
      { action: 'deleteQueue', affected: 0, error: expect.stringMatching(/^LOCKSTEP_QUEUE_NOT_EMPTY: /) },
    ])
  })

  test('is not begun if it can’t be recorded; without a name it needs no record', async () => {
    const { queue } = await start(2)
    await env.query('ALTER TABLE lockstep.audit RENAME TO audit_away')
    try {
      const refused = {
        code: 'LOCKSTEP_SCHEMA_MISSING',
        message: expect.stringMatching(/^nothing was done, since it could not be recorded in the audit: /),
      }
      await expect(env.lockstep.delete(queue, {}, { by: 'anna' })).rejects.toMatchObject(refused)
      await expect(env.lockstep.pause(queue, { by: 'anna' })).rejects.toMatchObject(refused)
      expect((await env.lockstep.find(queue)).items).toHaveLength(2)
      expect(await env.lockstep.delete(queue, {})).toEqual({ done: 2, total: 2 })
    } finally {
      await env.query('ALTER TABLE lockstep.audit_away RENAME TO audit')
    }
  })

  test('is a success even if its end can’t be recorded: a warning says so, and the entry has none', async () => {
    const { queue } = await start(2)
    const warned: object[] = []
    const logger: Logger = { debug() {}, info() {}, warn: (fields) => void warned.push(fields), error() {} }
    const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
    await env.query(`CREATE FUNCTION lockstep.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE 'the audit is full'; END $$`)
    await env.query(
      'CREATE TRIGGER refuse BEFORE UPDATE ON lockstep.audit FOR EACH ROW EXECUTE FUNCTION lockstep.refuse()',
    )
    try {
      expect(await lockstep.delete(queue, {}, { by: 'anna' })).toEqual({ done: 2, total: 2 })
      await lockstep.pause(queue, { by: 'anna' })
    } finally {
      await lockstep.close()
      await env.query('DROP FUNCTION lockstep.refuse CASCADE')
    }
    expect(warned).toMatchObject([
      { action: 'delete', error: 'the audit is full' },
      { action: 'pause', error: 'the audit is full' },
    ])
    expect(await entries()).toMatchObject([{ endedAt: null }, { endedAt: null }])
  })

  test('of many at once each has an entry of its own, with a number of its own', async () => {
    const { queue } = await start(0)
    const names = Array.from({ length: 12 }, (_, n) => `person ${n}`)
    await Promise.all(names.map((by) => env.lockstep.pause(queue, { by })))
    const recorded = await entries()
    expect(recorded.map(({ by }) => by).sort()).toEqual([...names].sort())
    expect(recorded.map(({ id }) => id)).toEqual(names.map((_, n) => n + 1))
  })

  test('takes little room, however much it names', async () => {
    const { queue } = await start(0)
    const ids = Array.from({ length: 5_000 }, (_, n) => `${n}`)
    await env.lockstep.delete(queue, { ids, id: { to: 'x'.repeat(5_000) } }, { by: 'ä'.repeat(200) })
    expect((await entries())[0]!.details).toEqual({
      ids: ids.slice(0, 20),
      id: { to: `${'x'.repeat(1_024)}...` },
      leftOut: { ids: 4_980 },
    })
  })
})

test.each([[''], [' '], ['x'.repeat(201)], ['a\u0000b'], ['\ud800'], [7], [null]])(
  '`by` can’t be %j',
  async (by) => {
    const { queue } = await start(0)
    const options = { by } as never
    const refused = { code: 'LOCKSTEP_BAD_OPTION' }
    expect(() => env.lockstep.delete(queue, {}, options)).toThrow(expect.objectContaining(refused))
    expect(() => env.lockstep.deleteQueue(queue, options)).toThrow(expect.objectContaining(refused))
    await expect(env.lockstep.resume(queue, options)).rejects.toMatchObject(refused)
    expect(await entries()).toEqual([])
  },
)

describe('the list', () => {
  test('has pages, the newest first', async () => {
    const { queue } = await start(0)
    for (const by of ['a', 'b', 'c']) await env.lockstep.pause(queue, { by })
    const page = await env.lockstep.audit({ limit: 2 })
    expect(page.map(({ by }) => by)).toEqual(['c', 'b'])
    const rest = await env.lockstep.audit({ limit: 2, before: page.at(-1)!.id })
    expect(rest.map(({ by }) => by)).toEqual(['a'])
  })

  test.each([{ limit: 0 }, { limit: 1_001 }, { before: 0 }, { before: 1.5 }, { since: 1 }])(
    'refuses %j',
    async (options) => {
      await expect(env.lockstep.audit(options as never)).rejects.toMatchObject({
        code: 'LOCKSTEP_BAD_OPTION',
      })
    },
  )
})

describe('trimming', () => {
  const fill = (from: number, to: number, age: string) =>
    env.query(
      `INSERT INTO lockstep.audit (audit_id, actor, action, queue, details, began_at)
       SELECT i, 'anna', 'pause', 'q', '{}', clock_timestamp() - $3::interval FROM generate_series($1::int, $2::int) i`,
      [from, to, age],
    )
  const left = async () => {
    const [row] = await env.query('SELECT min(audit_id) AS first, count(*) FROM lockstep.audit')
    return row
  }

  test('deletes entries older than 90 days, a thousand at a time', async () => {
    await fill(1, 1_500, '91 days')
    await fill(1_501, 1_502, '89 days')
    expect(await trimAudit(env.database)).toBe(1_000)
    expect(await trimAudit(env.database)).toBe(500)
    expect(await trimAudit(env.database)).toBe(0)
    expect(await left()).toEqual({ first: 1_501, count: 2 })
  })

  test('keeps 100,000', async () => {
    await env.query('VACUUM ANALYZE lockstep.audit')
    expect(await trimAudit(env.database), 'planned for an empty table').toBe(0)
    await fill(1, 100_003, '1 minute')
    expect(await trimAudit(env.database)).toBe(3)
    expect(await left()).toEqual({ first: 4, count: 100_000 })
    // Some 0.4 s; a nested loop of a thousand entries with all takes 20 s and more.
  }, 10_000)
})
