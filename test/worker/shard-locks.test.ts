import { expect, test, vi } from 'vitest'
import { connectionConfig } from '../../src/postgres/connection.ts'
import { ShardLocks } from '../../src/worker/assignment/shard-locks.ts'
import { Network } from '../support/network.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const SHARDS = [0, 1].map((shard) => ({ queueId: 1, shard }))
const FLAG = `'lockstep.queues'::regclass::oid::integer, 7`

// As if a server shuts down just after it has answered. Otherwise the worker would for good take shards for its own
// that any process may have.
test('R12: a lock whose session ends in one piece with the answer counts as lost', async () => {
  const network = await Network.to(env.connectionString)
  env.later(() => network.close())
  const onLost = vi.fn()
  const locks = new ShardLocks(
    connectionConfig(network.connectionString, 'locks'),
    'lockstep',
    env.logger,
    onLost,
  )
  await locks.start()
  env.later(() => locks.stop())
  const session = () =>
    env.sql<{ pid: number; waits: boolean }>(
      `SELECT pid, wait_event_type = 'Lock' AS waits FROM pg_stat_activity WHERE application_name = 'locks'`,
    )

  const producer = await env.session()
  await producer.query(`SELECT pg_advisory_lock(${FLAG})`)
  const raised = locks.raiseFlag([7])
  raised.catch(() => {})
  await eventually(async () => expect(await session()).toMatchObject([{ waits: true }]))
  const [{ pid }] = (await session()) as [{ pid: number; waits: boolean }]
  network.silence()
  await producer.query(`SELECT pg_advisory_unlock(${FLAG})`)
  await eventually(async () => expect(await session()).toMatchObject([{ waits: false }]))
  await env.sql('SELECT pg_terminate_backend($1)', [pid])
  await eventually(async () => expect(await session()).toEqual([]))
  expect(onLost).not.toHaveBeenCalled()
  network.restore()

  await expect(raised).rejects.toThrow('terminated')
  expect(onLost).toHaveBeenCalledTimes(1)
  await locks.raiseFlag([7])
  expect(await session()).toHaveLength(1)
})

// If a session outlives its process, silent for good, other processes end it. They see by the lock for the process
// whose session it is.
test('R12: a session has no shards before it has shown whose it is', async () => {
  const locks = new ShardLocks(
    connectionConfig(env.connectionString, 'shown'),
    'lockstep',
    env.logger,
    () => {},
  )
  await locks.start()
  env.later(() => locks.stop())
  expect(await locks.lockShards(SHARDS)).toEqual([])
  expect(await locks.lockProcess(1)).toBe(true)
  expect(await locks.lockShards(SHARDS)).toEqual(SHARDS)

  await env.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shown'`)
  // This opens another session, which does not belong to any process yet.
  await eventually(() => locks.raiseFlag([7]))
  expect(await locks.lockShards(SHARDS)).toEqual([])
  await locks.lockProcess(1)
  expect(await locks.lockShards(SHARDS)).toEqual(SHARDS)
})
