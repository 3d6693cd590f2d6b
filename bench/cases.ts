import type { Case } from './case.ts'
import { consumeCases } from './cases/consume.ts'
import { enqueueCases } from './cases/enqueue.ts'
import { fairnessCases } from './cases/fairness.ts'
import { floorCases } from './cases/floor.ts'
import { footprintCases } from './cases/footprint.ts'
import { httpCases } from './cases/http.ts'
import { httpV1Cases } from './cases/http-v1.ts'
import { idleCases } from './cases/idle.ts'
import { latencyCases } from './cases/latency.ts'
import { lockstepCases } from './cases/lockstep.ts'
import { neighbourCases } from './cases/neighbours.ts'
import { pacedCases } from './cases/paced.ts'
import { resultCases } from './cases/results.ts'
import { sizeCases } from './cases/sizes.ts'
import { slotCases } from './cases/slots.ts'
import { steadyCases } from './cases/steady.ts'
import { tenantCases } from './cases/tenants.ts'
import { watchedCases } from './cases/watched.ts'
import { webCases } from './cases/web.ts'
import { workCases } from './cases/work.ts'

export const cases: readonly Case[] = [
  ...floorCases,
  ...enqueueCases,
  ...workCases,
  ...latencyCases,
  ...pacedCases,
  ...slotCases,
  ...neighbourCases,
  ...fairnessCases,
  ...tenantCases,
  ...consumeCases,
  ...httpCases,
  ...httpV1Cases,
  ...resultCases,
  ...idleCases,
  ...footprintCases,
  ...sizeCases,
  ...steadyCases,
  ...lockstepCases,
  ...webCases,
  ...watchedCases,
]
