import type { Route } from '../route.ts'
import { ACTS } from './act.ts'
import { CLAIM } from './claim.ts'
import { ENQUEUE } from './enqueue.ts'
import { LOOKS } from './look.ts'
import { RESULT } from './result.ts'
import { SETTLE } from './settle.ts'

/** All routes but the one that describes them. */
export const ROUTES: readonly Route[] = [ENQUEUE, RESULT, CLAIM, ...SETTLE, ...LOOKS, ...ACTS]
