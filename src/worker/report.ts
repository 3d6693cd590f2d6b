import { boundText } from '../errors.ts'
import { defineQueue, type Queue } from '../queue.ts'
import type { OwnedShards, ProcessReport, ReportedPolicy, SlotInWork } from '../store/process-report.ts'
import type { SlotReport } from './performing/in-flight.ts'
import type { Shard } from './schedule/shard.ts'

/** Bytes, of JSON, for the shards and for what slots do: the report is stored with every renewal of the lease. */
const MAX_BYTES = 8 * 1024
/** How many shards of a queue are listed; the others are counted. */
const MAX_SHARDS = 64
const MAX_IDS = 5
const MAX_ID_LENGTH = 100

/** What a process says of itself. Its size has a limit, however many shards and slots there are. */
export function reportOf(
  eventLoopDelay: number,
  shards: Iterable<Shard>,
  slots: readonly SlotReport[],
): ProcessReport {
  const longestFirst = slots.toSorted((a, b) => a.since.getTime() - b.since.getTime())
  return {
    eventLoopDelay,
    memory: process.memoryUsage().rss,
    shards: fitting(ownedShards(shards)),
    doing: fitting(longestFirst.map(slotInWork)),
  }
}

function ownedShards(all: Iterable<Shard>): OwnedShards[] {
  const queues = new Map<Queue, number[]>()
  for (const { served, shard } of all) {
    const shards = queues.get(served.queue)
    if (shards) shards.push(shard)
    else queues.set(served.queue, [shard])
  }
  return [...queues].map(([queue, shards]) => ({
    queue: queue.name,
    count: shards.length,
    shards: shards.sort((a, b) => a - b).slice(0, MAX_SHARDS),
    policy: policyOf(queue),
  }))
}

const POLICY = [
  'batchSize',
  'concurrency',
  'maxPayloads',
  'maxBytes',
  'maxRetryCount',
  'maxCrashes',
  'timeout',
  'retryIn',
  'onDeath',
  'schema',
  'transactional',
] as const
const DEFAULTS = defineQueue('defaults')

function policyOf(queue: Queue): ReportedPolicy {
  const named = POLICY.filter((name) => queue[name] !== DEFAULTS[name])
  return Object.fromEntries(
    named.map((name) => {
      const value = queue[name]
      return [name, typeof value === 'number' ? value : true]
    }),
  )
}

function slotInWork({ slot, queue, shard, ids, since }: SlotReport): SlotInWork {
  const named = ids.slice(0, MAX_IDS).map((id) => boundText(id, MAX_ID_LENGTH))
  return { slot, queue, shard, jobs: ids.length, ids: named, since }
}

/** The first ones, up to the limit. Characters beyond ASCII take six bytes each (see renewAndReport). */
function fitting<T>(all: readonly T[]): T[] {
  let bytes = 0
  const end = all.findIndex((one) => {
    bytes += [...JSON.stringify(one)].reduce((sum, character) => sum + bytesOf(character), 1)
    return bytes > MAX_BYTES
  })
  return end < 0 ? [...all] : all.slice(0, end)
}

function bytesOf(character: string): number {
  return character < '\u007f' ? 1 : 6 * character.length
}
