import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Blow, strike } from './battle.ts'
import { Chance } from './chance.ts'
import { FAULTS } from './faults.ts'
import { Field, SMALL } from './field.ts'
import { complaints, judge } from './judge.ts'

const DEADLINE = 120_000

let field: Field

beforeAll(async () => {
  field = await Field.open({ workers: 2, producers: 2, scale: SMALL })
  await field.probe()
}, DEADLINE)
afterAll(() => field?.close())

const chance = new Chance(Date.now() % 1_000_000)

test.each(FAULTS.map((fault) => [fault.name, fault] as const))(
  'work goes on after: %s',
  async (_, fault) => {
    const { recovery }: Blow = await strike(field, chance, [fault])
    expect(recovery).toBeGreaterThan(0)
  },
  DEADLINE,
)

test(
  'P1 to P6: none of them has broken a promise',
  async () => {
    const verdict = judge(field, await field.settle())
    expect(complaints(verdict)).toEqual([])
    expect(verdict.payloads).toBeGreaterThan(1_000)
  },
  DEADLINE,
)
