import type { Cursor } from '../../store/claim.ts'
import type { WaitingJob } from '../../store/limits.ts'

/** No time at all; in microseconds since 1970, as all others. */
export const NEVER = Number.POSITIVE_INFINITY

export const START: Cursor = { after: null, afterId: '' }

/** The place from which on a job due at that time is found. */
export function before(performIn: number): Cursor {
  return { after: performIn - 1, afterId: '' }
}

/** The place right behind a job. */
export function behind({ performIn, id }: WaitingJob): Cursor {
  return { after: performIn, afterId: id }
}

export function isBefore(a: Cursor, b: Cursor): boolean {
  const [one, other] = [a.after ?? -NEVER, b.after ?? -NEVER]
  return one < other || (one === other && a.afterId < b.afterId)
}

export function first(a: Cursor, b: Cursor): Cursor {
  return isBefore(a, b) ? a : b
}

export function isPast(performIn: number, { after }: Cursor): boolean {
  return after !== null && performIn > after
}

/** By time, then by id as the database orders it. */
export function inOrder(a: WaitingJob, b: WaitingJob): number {
  return a.performIn - b.performIn || Buffer.compare(Buffer.from(a.id), Buffer.from(b.id))
}
