import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Blow, strike } from './battle.ts'
import { Chance } from './chance.ts'
import { Cluster } from './cluster.ts'
import { FAULTS } from './faults.ts'
import { complaints, judge } from './judge.ts'
import { SMALL } from './scale.ts'

const DEADLINE = 120_000

let cluster: Cluster

beforeAll(async () => {
  cluster = await Cluster.open({ workers: 2, producers: 2, scale: SMALL })
  await cluster.probe()
}, DEADLINE)
afterAll(() => cluster?.close())

const chance = new Chance(Date.now() % 1_000_000)

test.each(FAULTS.map((fault) => [fault.name, fault] as const))(
  'work goes on after: %s',
  async (_, fault) => {
    const { recovery }: Blow = await strike(cluster, chance, [fault])
    expect(recovery).toBeGreaterThan(0)
  },
  DEADLINE,
)

test(
  'P1 to P6: none of them has broken a promise',
  async () => {
    const verdict = judge(cluster, await cluster.settle())
    expect(complaints(verdict)).toEqual([])
    expect(verdict.payloads).toBeGreaterThan(1_000)
  },
  DEADLINE,
)
