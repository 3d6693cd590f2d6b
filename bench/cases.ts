import type { Case } from './case.ts'
import { enqueueCases } from './cases/enqueue.ts'
import { floorCases } from './cases/floor.ts'
import { latencyCases } from './cases/latency.ts'
import { lockstepCases } from './cases/lockstep.ts'
import { steadyCases } from './cases/steady.ts'
import { workCases } from './cases/work.ts'

export const cases: readonly Case[] = [
  ...floorCases,
  ...enqueueCases,
  ...workCases,
  ...latencyCases,
  ...steadyCases,
  ...lockstepCases,
]
