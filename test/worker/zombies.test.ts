import { expect, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import { compare } from '../../src/store/comparison.ts'
import { Zombies } from '../../src/worker/maintenance/zombies.ts'
import { eventually, useWorkshop } from '../support/workshop.ts'

const shop = useWorkshop()
const REBALANCE_INTERVAL = 500

test('P8: the session of a process that is gone is ended once it was seen for two rebalance intervals, whoever looked how often', async () => {
  const database = new Database(shop.pool, 'lockstep')
  const session = await shop.session()
  await session.query(`SELECT pg_advisory_lock('lockstep.processes'::regclass::oid::integer, 1234567)`)
  const outlived = async () => (await compare(database, { names: [], processId: 0, shards: [] })).outlived
  const seen = await outlived()
  expect(seen).toMatchObject([{ processId: 1_234_567 }])

  const frozen = new Zombies(database, shop.logger, REBALANCE_INTERVAL)
  for (const at of [0, 1, 999]) {
    await frozen.end(seen, at)
    expect(frozen.pending).toBe(true)
  }
  // That was one which has stopped, and here is another.
  await frozen.end([], 1_000)
  expect(frozen.pending).toBe(false)
  await frozen.end(seen, 1_001)
  expect(await outlived()).toEqual(seen)

  await frozen.end(seen, 2_001)
  expect(frozen.pending).toBe(false)
  await eventually(async () => expect(await outlived()).toEqual([]))
})
