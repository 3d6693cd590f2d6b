import { rejectUnknownOptions, wholeNumber } from '../options.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { patiently } from '../store/patience.ts'
import { type ActorOptions, checkActor } from './audit.ts'
import type { Progress } from './progression.ts'

export interface ProgressionOptions extends ActorOptions {
  /** Stops the work between two chunks. It then rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** Most rows per transaction, 1 to 10,000. Default 500. */
  readonly chunk?: number
}

export interface ChunkSettings {
  readonly signal: AbortSignal | undefined
  readonly chunk: number
}

const DEFAULT_CHUNK = 500
const MAX_CHUNK = 10_000
/** ms; below the server's deadlock_timeout (1 s), so that we give way and never the application. */
const LOCK_TIMEOUT = 300

/** @throws OptionError */
export function chunkSettings(options: ProgressionOptions, what: string): ChunkSettings {
  rejectUnknownOptions(options, ['signal', 'chunk', 'by'], what)
  checkActor(options.by, what)
  return {
    signal: options.signal,
    chunk: wholeNumber(options.chunk ?? DEFAULT_CHUNK, 1, MAX_CHUNK, `${what}: chunk`),
  }
}

/** The result of one transaction: the places of the rows it examined, in order, and the number it changed. */
export interface Step<Place> {
  readonly seen: readonly Place[]
  readonly done: number
}

/** Rows to walk over. The key only moves forward, so that rows that stay don't make the walk loop. */
export interface Walk<Place, Last> {
  /** The number of rows and the last one. The walk leaves alone rows that appear behind it later. */
  count(): Promise<{ total: number; last: Last | null }>
  step(tx: Queryable, after: Place | undefined, last: Last, limit: number): Promise<Step<Place>>
}

/**
 * Walks in transactions of up to `chunk` rows. It waits for a row that an open transaction of the application holds,
 * but only for one row at a time: if it had locked others, it would hold those up too, and could deadlock. So a chunk
 * that can't lock its rows soon gives way, and the walk goes on with one row, waiting for it, then two, four …
 */
export async function* walk<Place, Last>(
  database: Database,
  rows: Walk<Place, Last>,
  { chunk, signal }: ChunkSettings,
): AsyncGenerator<Progress, void> {
  signal?.throwIfAborted()
  const { total, last } = await rows.count()
  yield { done: 0, total }
  if (last === null) return
  let [done, limit, after]: [number, number, Place | undefined] = [0, chunk, undefined]
  for (;;) {
    signal?.throwIfAborted()
    const timeout = limit > 1 ? LOCK_TIMEOUT : 0
    const step = await patiently(database, timeout, (tx) => rows.step(tx, after, last, limit))
    if (step) {
      done += step.done
      yield { done, total: Math.max(done, total) }
      if (step.seen.length < limit) return
      after = step.seen.at(-1)
    }
    limit = step ? Math.min(limit * 2, chunk) : 1
  }
}
