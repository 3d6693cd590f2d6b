import { OptionError } from '../../errors.ts'
import { MAX_LANE } from '../../job.ts'
import { isPlain, nameOf, show } from '../../options.ts'
import { byTurns } from './by-turns.ts'
import type { Scheduler } from './scheduler.ts'
import { isWeight, LEAST_WEIGHT, MOST_WEIGHT } from './weight.ts'

/** A weight for a queue as a whole, from 0.001 to 1,000, which its lanes share, or for each of its lanes. */
export type Weights = Readonly<Record<string, number | Readonly<Record<number, number>>>>

/**
 * Queues take turns by weight, by the jobs that are taken: with weights 6, 3 and 1, they have 60, 30 and 10 %. A queue that
 * has nothing due leaves its turns to the others. Lanes of a queue are drawn by weight each time: with 6, 3 and 1, they are
 * looked at first 60, 30 and 10 % of the time, and among what has nothing due, the rest is drawn. A lane that took a batch of
 * several jobs sits out as many draws. In lane 0 of a queue without rules, tenants take turns. What is not named weighs 1.
 * Weights are from 0.001 to 1,000: at greater distances, floating-point numbers could no longer add up the turns.
 * @throws OptionError for another weight, or for a lane that is no number from 0 to 32767
 */
export function weighted(weights: Weights): Scheduler {
  return weightedBy(weights, Math.random)
}

/** `random`: from 0 up to, but not, 1. */
export function weightedBy(weights: Weights, random: () => number): Scheduler {
  checkWeights(weights)
  const weightOf = (queue: string) => (Object.hasOwn(weights, queue) ? weights[queue]! : 1)
  const ofLane = (queue: string, lane: number) => {
    const weight = weightOf(queue)
    return typeof weight === 'object' ? (weight[lane] ?? 1) : 1
  }
  const ofQueue = (queue: string, lanes: () => ReadonlySet<number>) => {
    const weight = weightOf(queue)
    if (typeof weight === 'number') return weight
    return [...lanes()].reduce((sum, lane) => sum + ofLane(queue, lane), 0)
  }
  const turns = byTurns({
    ofQueue: (queue, lanes) => 1 / ofQueue(queue, lanes),
    ofLane: (queue, lane) => -Math.log(1 - random()) / ofLane(queue, lane),
    drawsLanes: true,
    ofTenant: () => 1,
  })
  return { ...turns, namedQueues: Object.keys(weights) }
}

function checkWeights(weights: Weights): void {
  if (!isPlain(weights))
    throw new OptionError(
      `weighted: the weights must be an object such as { orders: 3 }, not ${nameOf(weights)}`,
    )
  for (const [queue, weight] of Object.entries(weights)) {
    const byLane = typeof weight === 'object' && weight !== null ? weight : { 0: weight }
    for (const [lane, one] of Object.entries(byLane)) {
      if (!/^(0|[1-9]\d*)$/.test(lane) || Number(lane) > MAX_LANE)
        throw new OptionError(
          `weighted: a lane of "${queue}" must be a whole number from 0 to ${MAX_LANE}, not ${show(lane)}`,
        )
      if (!isWeight(one))
        throw new OptionError(
          `weighted: the weight of "${queue}" must be a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}, not ${show(one)}`,
        )
    }
  }
}
