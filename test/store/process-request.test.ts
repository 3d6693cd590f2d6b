import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { askOfProcess, lookAtProcesses, removeProcess, renewLeases } from '../../src/store/process.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

const waiting = () =>
  vi.waitFor(async () => {
    const rows = await env.query(
      `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`,
    )
    expect(rows).toHaveLength(1)
  })

async function registered(): Promise<number> {
  return (await (await env.queue()).claimer()).processId
}

test('R15 what is asked of a process before it removes its row is told to it then', async () => {
  const processId = await registered()
  expect(await askOfProcess(env.database, processId, 'quiet')).toEqual({ overdue: false })
  expect(await removeProcess(env.database.pool, 'lockstep', processId)).toBe('quiet')
  expect(await askOfProcess(env.database, processId, 'stop')).toBeUndefined()
  expect(await removeProcess(env.database.pool, 'lockstep', processId)).toBeNull()
})

test('R15 a request waits for a removal under way, and then finds no process', async () => {
  const processId = await registered()
  const session = await env.session()
  await session.query('BEGIN')
  expect(await removeProcess(session, 'lockstep', processId)).toBeNull()
  const asked = askOfProcess(env.database, processId, 'stop')
  await waiting()
  await session.query('COMMIT')
  expect(await asked).toBeUndefined()
})

test('R15 a removal waits for a request under way, and gets it', async () => {
  const processId = await registered()
  const session = await env.session()
  await session.query('BEGIN')
  await session.query(`UPDATE lockstep.processes SET request = 'stop' WHERE process_id = $1`, [processId])
  const removed = removeProcess(env.database.pool, 'lockstep', processId)
  await waiting()
  await session.query('COMMIT')
  expect(await removed).toBe('stop')
})

test('P1: a request is no sign of life, and a renewal keeps it', async () => {
  const processId = await registered()
  const seen = async () =>
    (await lookAtProcesses(env.database)).find((sight) => sight.processId === processId)!
  const { renewal } = await seen()
  await askOfProcess(env.database, processId, 'stop')
  await askOfProcess(env.database, processId, 'quiet')
  expect(await seen()).toMatchObject({ renewal, request: 'stop' })
  expect(await renewLeases(env.database.pool, 'lockstep', [processId], 60_000)).toEqual([processId])
  expect((await seen()).request).toBe('stop')
  expect((await seen()).renewal).not.toBe(renewal)
})
