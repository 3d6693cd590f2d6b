import type { ProcessRow, QueueStats } from '../index.ts'

/** ms for which the oldest due job has waited when a queue counts as late. */
const LATE = 60_000
/** Jobs that have failed, below which they are no cause of lateness. */
const MANY_RETRYING = 10

/** Something that needs a person, with what is known of it. */
export type Finding =
  /** Its jobs wait for somebody to resume it. `since`: when it was paused. */
  | { readonly kind: 'paused'; readonly queue: QueueStats; readonly since: Date }
  /** No live worker process has the queue. */
  | { readonly kind: 'unserved'; readonly queue: QueueStats }
  /** All processes that have the queue take no new jobs. */
  | { readonly kind: 'quiet'; readonly queue: QueueStats }
  /** Its oldest due job waits for longer than a minute. `slots`: of the processes that have the queue, busy with whatever. */
  | { readonly kind: 'late'; readonly queue: QueueStats; readonly processes: number; readonly slots: number }
  /** Most of what waits has failed before. */
  | { readonly kind: 'failing'; readonly queue: QueueStats }
  /** It should have renewed its lease. */
  | { readonly kind: 'silent'; readonly process: ProcessRow }

/** What is wrong, the worst first. At most one finding a queue: the first cause hides those that follow from it. */
export function diagnose(queues: readonly QueueStats[], processes: readonly ProcessRow[]): Finding[] {
  const silent = processes.filter(({ overdue }) => overdue)
  const ofQueues = queues
    .flatMap((queue) => findingOf(queue, processes) ?? [])
    .sort(
      (one, other) => RANKS.indexOf(one.kind) - RANKS.indexOf(other.kind) || other.queue.lag - one.queue.lag,
    )
  return [...silent.map((process) => ({ kind: 'silent', process }) as const), ...ofQueues]
}

type OfQueue = Extract<Finding, { queue: QueueStats }>

const RANKS: readonly OfQueue['kind'][] = ['unserved', 'quiet', 'late', 'paused', 'failing']

function findingOf(queue: QueueStats, processes: readonly ProcessRow[]): OfQueue | undefined {
  const { pausedAt, waiting, due, retrying, lag } = queue
  if (pausedAt !== null) return waiting > 0 ? { kind: 'paused', queue, since: pausedAt } : undefined
  const serving = processes.filter((one) => !one.overdue && one.queues.includes(queue.queue))
  if (due > 0 && serving.length === 0) return { kind: 'unserved', queue }
  if (due > 0 && serving.every(({ quiet }) => quiet)) return { kind: 'quiet', queue }
  if (lag >= LATE) {
    const slots = serving.reduce((sum, one) => sum + (one.quiet ? 0 : one.slots), 0)
    return { kind: 'late', queue, processes: serving.length, slots }
  }
  if (retrying >= MANY_RETRYING && retrying * 2 >= waiting) return { kind: 'failing', queue }
  return undefined
}
