import type { Instrumentation, ObservedRound } from '../instrumentation.ts'
import type { CounterKey, HistogramKey, Outcome } from './catalogue.ts'

export type Labels = {
  readonly queue?: string
  readonly outcome?: Outcome
}

/** Where measurements go. */
export interface Sink {
  count(metric: CounterKey, labels: Labels, by: number): void
  /** `error`: what the operation failed of; undefined if it succeeded. */
  time(metric: HistogramKey, labels: Labels, ms: number, error?: unknown): void
}

/** All that there are. */
export const OUTCOMES: readonly Outcome[] = ['completed', 'failed', 'snoozed', 'dropped']
const OF_WORKERS: readonly CounterKey[] = ['handed', 'merged', 'died', 'expired', 'rescued', 'refused']

/** Measures what happens in this process. */
export function measures({ count, time }: Sink): Instrumentation {
  const ended = (queue: string, outcome: Outcome, rounds = 1) =>
    count('performed', { queue, outcome }, rounds)
  return {
    /** A counter that begins at 1 shows no increase. */
    start({ worker }) {
      for (const queue of worker.queues) {
        for (const metric of OF_WORKERS) count(metric, { queue }, 0)
        for (const outcome of OUTCOMES) ended(queue, outcome, 0)
      }
    },
    enqueue:
      ({ queue }) =>
      ({ duration, stored, error }) => {
        time('enqueue', { queue }, duration, stored === undefined ? (error ?? 'unknown') : undefined)
        if (stored === undefined) count('enqueueErrors', { queue }, 1)
        else count('enqueued', { queue }, stored)
      },
    perform({ queue, rounds }) {
      for (const { waited } of rounds) time('wait', { queue }, waited)
      count('handed', { queue }, payloadsOf(rounds))
      return ({ duration, failed, error }) =>
        time('run', { queue }, duration, failed ? failed.values().next().value : error)
    },
    complete({ queue, rounds }) {
      ended(queue, 'completed', rounds.length)
      const merged = payloadsOf(rounds) - rounds.length
      if (merged > 0) count('merged', { queue }, merged)
    },
    fail: ({ queue }) => ended(queue, 'failed'),
    snooze: ({ queue }) => ended(queue, 'snoozed'),
    drop: ({ queue }) => ended(queue, 'dropped'),
    die: ({ queue }) => count('died', { queue }, 1),
    expire: ({ queue, payloads }) => count('expired', { queue }, payloads),
    rescue: ({ queue }) => count('rescued', { queue }, 1),
    refuse: ({ queue }) => count('refused', { queue }, 1),
    renew: ({ duration }) => time('renewal', {}, duration),
  }
}

/** How many payloads these rounds have. */
export function payloadsOf(rounds: readonly ObservedRound[]): number {
  return rounds.reduce((sum, { payloads }) => sum + payloads, 0)
}
