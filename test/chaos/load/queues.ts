import { defineQueue, type Queue } from '../../../src/index.ts'

const ORDINARY = 498
const SHARDS = 4
const BATCH_SIZE = 20

/** The queues that hold the million ids. */
export const ORDINARY_NAMES = Array.from({ length: ORDINARY }, (_, index) => `ordinary-${index}`)
/** Its only id has ten thousand payloads at a time. */
export const HOT = 'hot'
/** Its payloads have a megabyte. */
export const LARGE = 'large'

export type Handler = NonNullable<Queue['perform']>

/** 500 queues of 4 shards, by name; without handlers for producers. */
export function loadQueues(handlerOf?: (queue: string) => Handler): Map<string, Queue> {
  const define = (name: string, batchSize: number) =>
    defineQueue(name, { shards: SHARDS, batchSize, ...(handlerOf && { perform: handlerOf(name) }) })
  const queues = [...ORDINARY_NAMES.map((name) => define(name, BATCH_SIZE)), define(HOT, 1), define(LARGE, 1)]
  return new Map(queues.map((queue) => [queue.name, queue]))
}
