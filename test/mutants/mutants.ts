import { CARRIED } from './carried.ts'
import { CLASSIC } from './classic.ts'
import { CONNECTED } from './connected.ts'
import { EXPIRY } from './expiry.ts'
import { HEADERS } from './headers.ts'
import { LEASED } from './leased.ts'
import { LIMITED } from './limited.ts'
import type { Mutant } from './mutant.ts'
import { PUSHED } from './pushed.ts'
import { RECORDED } from './recorded.ts'
import { RELEASED } from './released.ts'
import { RESULTS } from './results.ts'
import { SCHEDULED } from './scheduled.ts'
import { SERVED } from './served.ts'
import { SETTLED } from './settled.ts'
import { SHARED } from './shared.ts'
import { SIZED } from './sized.ts'
import { STORED } from './stored.ts'
import { TENANTS } from './tenants.ts'
import { TRANSACTIONAL } from './transactional.ts'
import { WAITING } from './waiting.ts'
import { WORKED } from './worked.ts'

export const MUTANTS: readonly Mutant[] = [
  ...CLASSIC,
  ...LEASED,
  ...PUSHED,
  ...STORED,
  ...SIZED,
  ...HEADERS,
  ...CARRIED,
  ...WAITING,
  ...WORKED,
  ...TRANSACTIONAL,
  ...SCHEDULED,
  ...SHARED,
  ...SETTLED,
  ...RELEASED,
  ...CONNECTED,
  ...RECORDED,
  ...TENANTS,
  ...LIMITED,
  ...SERVED,
  ...RESULTS,
  ...EXPIRY,
]
