import { LockstepError } from '../../errors.ts'
import { nameOf } from '../../options.ts'
import type { Queue } from '../../queue.ts'
import { storableResult } from '../../storable-json.ts'
import type { KeptResult } from '../../store/results.ts'
import type { Failed, Performance } from './perform.ts'

/** Of all results of a batch: they are stored by one statement. */
const MOST_CHARACTERS = 64 * 1_024 * 1_024

/** What to keep of what a handler has returned, and the error of each id whose result can't be stored. */
export interface Returned {
  readonly results: ReadonlyMap<string, KeptResult>
  readonly failed: Failed
}

/**
 * A queue whose batches have one id returns its result, others return a Map from ids to results. Nothing, or an id that is
 * missing, becomes null. `returned` may be a promise; middleware may have swallowed its error, and made it a success.
 */
export async function resultsOf(
  { queue, rounds }: Performance,
  returned: unknown,
  failed: Failed,
): Promise<Returned> {
  const value = await Promise.resolve(returned).catch(() => undefined)
  const results = new Map<string, KeptResult>()
  const unfit = new Map<string, unknown>()
  let size = 0
  for (const { id } of rounds) {
    if (failed.has(id)) continue
    try {
      const json = jsonOf(queue, resultFor(queue, id, value))
      size += json.length
      if (size > MOST_CHARACTERS) throw badResult(queue, 'is too large together with others of its batch')
      results.set(id, { json, seconds: queue.keepResult! })
    } catch (error) {
      unfit.set(id, error)
    }
  }
  return { results, failed: unfit }
}

function resultFor(queue: Queue, id: string, value: unknown): unknown {
  if (queue.batchSize === 1 || value === undefined) return value
  if (value instanceof Map) return value.get(id)
  throw badResult(
    queue,
    `must be in a Map from ids to results, since batchSize is above 1, not in ${nameOf(value)}`,
  )
}

function jsonOf(queue: Queue, result: unknown): string {
  const bad = (problem: string) => badResult(queue, problem)
  return storableResult(result === undefined ? null : result, bad)
}

function badResult({ name }: Queue, problem: string): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_RESULT', `the result of a handler of queue "${name}" ${problem}`)
}
