import { setTimeout as sleep } from 'node:timers/promises'
import { LockstepError, OptionError } from '../errors.ts'
import { Gathered } from '../gathered.ts'
import { optionalSignal, rejectUnknownOptions, show, storableText, wholeNumber } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { isQueue, type Queue } from '../queue.ts'
import { findResults, type ResultKey, type ResultRow } from '../store/results.ts'

/** What has become of a push. */
export type JobResult<Result = unknown> =
  /** The round that took the payload has returned `result`, as JSON has it. */
  | { readonly state: 'completed'; readonly result: Result; readonly endedAt: Date }
  /** The payload lies in the morgue. */
  | { readonly state: 'dead'; readonly error: string | null; readonly endedAt: Date }
  /** It isn't over; `error` is that of the last try, if one has failed. */
  | { readonly state: 'waiting' | 'working'; readonly error: string | null; readonly retryCount: number }
  /** No result is kept: its time is over, the queue keeps none, or the job was deleted or has expired. */
  | { readonly state: 'gone' }

export interface ResultOptions {
  /** ms to wait for the end, at most. Default 0. */
  readonly wait?: number
  /** Ends the wait. */
  readonly signal?: AbortSignal
}

/** Most keys in one look. */
const MOST_KEYS = 500
/** ms between two looks of one wait: a tenth of its age. */
const [SHORTEST_PAUSE, LONGEST_PAUSE, SHARE] = [10, 500, 0.1]
const LONGEST_WAIT = 24 * 3600 * 1000

/** Looks for results, and waits for them. Looks that are due at once go to the database together. */
export class Results {
  readonly #looks: Gathered<ResultKey, ResultRow>
  readonly #closing = new AbortController()

  constructor(database: Database) {
    const find = (keys: readonly ResultKey[]) => findResults(database, keys)
    this.#looks = new Gathered(find, MOST_KEYS, undefined, isUnknownQueue)
  }

  /** @throws OptionError, LockstepError, DatabaseError; the reason of `signal` */
  async find(queue: Queue | string, id: string, round: string, options: ResultOptions): Promise<ResultRow> {
    const key = keyOf(queue, id, round)
    const { wait, signal } = checkOptions(options)
    signal?.throwIfAborted()
    const begun = performance.now()
    const ending = AbortSignal.any([this.#closing.signal, ...(signal ? [signal] : [])])
    let row: ResultRow | undefined
    for (;;) {
      row = await this.#looks.add(key).catch((error) => lastSeen(row, error))
      const age = performance.now() - begun
      if (isOver(row) || age >= wait || this.#closing.signal.aborted) return row
      const pause = Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, age * SHARE), wait - age)
      await sleep(pause, undefined, { signal: ending }).catch(() => signal?.throwIfAborted())
    }
  }

  /** Answers all who wait. */
  close(): void {
    this.#closing.abort()
  }
}

export function toJobResult(row: ResultRow): JobResult {
  const { state, result, error, ended_at: endedAt } = row
  if (state === 'completed') return { state, result: JSON.parse(result!), endedAt: endedAt! }
  if (state === 'dead') return { state, error, endedAt: endedAt! }
  return state === 'gone' ? { state } : { state, error, retryCount: row.retry_count! }
}

/** Whether nothing more will become of it. */
export function isOver({ state }: ResultRow): boolean {
  return state !== 'waiting' && state !== 'working'
}

/** A server that restarts has nothing new to tell: the job may end all the same. */
function lastSeen(row: ResultRow | undefined, error: unknown): ResultRow {
  if (row && hasCode(error, 'LOCKSTEP_CONNECTION')) return row
  throw error
}

/** Others ask for results of other queues. */
function isUnknownQueue(error: unknown): boolean {
  return hasCode(error, 'LOCKSTEP_UNKNOWN_QUEUE')
}

function keyOf(queue: Queue | string, id: string, round: string): ResultKey {
  if (typeof queue !== 'string' && !isQueue(queue))
    throw new LockstepError('LOCKSTEP_BAD_QUEUE', `result takes a queue or its name, not ${show(queue)}`)
  if (typeof id !== 'string') throw new OptionError(`result: id must be text, not ${show(id)}`)
  if (typeof round !== 'string' || !/^\d{1,18}\.\d{1,17}\.[0-9a-f]{16}$/.test(round))
    throw new OptionError(`result: round must be what the push was answered with, not ${show(round)}`)
  const key = { queue: typeof queue === 'string' ? queue : queue.name, id, round }
  // It would fail those that go to the database together with it.
  for (const [name, text] of Object.entries(key)) storableText(text, `result: ${name}`)
  return key
}

function checkOptions(options: ResultOptions): { wait: number; signal: AbortSignal | undefined } {
  rejectUnknownOptions(options, ['wait', 'signal'], 'result')
  const { wait = 0, signal } = options
  return {
    wait: wholeNumber(wait, 0, LONGEST_WAIT, 'result: wait'),
    signal: optionalSignal(signal, 'result: signal'),
  }
}
