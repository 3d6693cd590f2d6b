import { defineQueue, type Queue } from '../../index.ts'
import { partsOf } from './names.ts'

/** So the order in which jobs are due is that of the whole queue. */
export const SHARDS = 1

/** A queue as another API beside lmstfy's makes it: whichever asks for it first, jobs of lmstfy's keep their order. */
export function defineBeside(name: string): Queue {
  return defineQueue(name, partsOf(name) && { shards: SHARDS })
}
