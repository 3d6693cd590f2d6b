import { legible, PayloadError } from '../../errors.ts'
import { judge, mismatch, type StandardSchema } from '../../schema.ts'
import { cutAfter, type Round } from '../../store/claim.ts'
import type { FailedRound } from '../settling/outcome.ts'
import { failure } from './ending.ts'
import type { Abort, Performance } from './perform.ts'

/** What of a batch may be performed, as its queue's schema made it. The other rounds have ended before they began. */
export interface Acceptance {
  readonly accepted: readonly Round[]
  readonly failed: readonly FailedRound[]
  /** If the signal was aborted meanwhile, as when the worker stops, no handler begins. */
  readonly released: readonly Round[]
}

/**
 * Validates the payloads of a queue with a schema: SQL can push anything, and so can a release with another schema. A
 * round ends before the first payload that is refused, as if maxPayloads had cut it there. If that payload comes first, it
 * dies at once, as the lowest payload of a failed round does (R7): no retry can help. The others follow in the next round.
 */
export async function accept(
  schema: StandardSchema,
  { queue, describe, abort }: Performance,
  rounds: readonly Round[],
): Promise<Acceptance> {
  const accepted: Round[] = []
  const failed: FailedRound[] = []
  for (const round of rounds) {
    if (abort.reason) break
    try {
      const { values, problem } = await validated(schema, round, abort)
      if (problem === undefined) accepted.push({ ...round, payloads: values })
      else if (values.length > 0) accepted.push({ ...cutAfter(round, values.length), payloads: values })
      else {
        const thrown = new PayloadError(mismatch(queue.name, problem))
        failed.push({ round, thrown, end: 'die', error: describe(thrown), retryIn: null })
      }
    } catch (error) {
      failed.push(failure(queue, round, legible(error), describe))
    }
  }
  if (!abort.reason) return { accepted, failed, released: [] }
  return { accepted: [], failed: [], released: rounds }
}

/** What the schema makes of the payloads before the first one that it refuses. */
async function validated(
  schema: StandardSchema,
  { payloads }: Round,
  abort: Abort,
): Promise<{ values: unknown[]; problem?: string }> {
  const values: unknown[] = []
  for (const payload of payloads) {
    if (abort.reason) break
    const verdict = await judge(schema, payload)
    if (verdict.problem !== undefined) return { values, problem: verdict.problem }
    values.push(verdict.value)
  }
  return { values }
}
