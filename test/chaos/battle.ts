import type { Chance } from './chance.ts'
import type { Cluster } from './cluster.ts'
import type { Fault } from './fault.ts'

/** Faults injected side by side. */
export interface Blow {
  readonly faults: readonly Fault[]
  /** ns of the clock that all processes share: from the first fault until everything went on again. */
  readonly from: bigint
  readonly to: bigint
  /** ms from the end of the last fault until jobs pushed after it had been performed in every shard. */
  readonly recovery: number
}

/** Injects faults side by side and waits until everything goes on. */
export async function strike(cluster: Cluster, chance: Chance, faults: readonly Fault[]): Promise<Blow> {
  const from = process.hrtime.bigint()
  const results = await Promise.allSettled(faults.map((fault) => fault.inject(cluster, chance)))
  const broken = results.findIndex(({ status }) => status === 'rejected')
  if (broken >= 0) {
    const { reason } = results[broken] as PromiseRejectedResult
    throw new Error(`${faults[broken]!.name}: ${reason.message}`, { cause: reason })
  }
  const recovery = await cluster.probe()
  return { faults, from, to: process.hrtime.bigint(), recovery }
}

/** Mostly one fault, now and then two or three at once. */
export function draw(chance: Chance, from: readonly Fault[]): Fault[] {
  const drawn = new Set<Fault>()
  const count = Math.min(chance.pick([1, 1, 1, 2, 2, 3]), from.length)
  while (drawn.size < count) drawn.add(chance.weigh(from))
  return [...drawn]
}
