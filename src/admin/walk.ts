import { DatabaseError } from '../errors.ts'
import { rejectUnknownOptions, wholeNumber } from '../options.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import { AT_ONCE, insistenceOf, PATIENCE } from '../store/insistence.ts'
import { patiently, waitingAtMost } from '../store/patience.ts'
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
/** ms that a chunk waits for a row; below the server's deadlock_timeout (1 s), so that we give way and never the application. */
const LOCK_TIMEOUT = 20

/** @throws OptionError */
export function chunkSettings(options: ProgressionOptions, what: string): ChunkSettings {
  rejectUnknownOptions(options, ['signal', 'chunk', 'by'], what)
  checkActor(options.by, what)
  return {
    signal: options.signal,
    chunk: wholeNumber(options.chunk ?? DEFAULT_CHUNK, 1, MAX_CHUNK, `${what}: chunk`),
  }
}

/** Rows to walk over. The place only moves forward, so that rows that stay don't make the walk loop. */
export interface Walk<Place> {
  /** The number of rows and the last id. The walk leaves alone rows that appear behind it later. */
  count(): Promise<{ total: number; last: string | null }>
  /** The next places of rows that match, in order, without locking them. */
  list(after: Place | undefined, last: string, limit: number): Promise<Place[]>
  /** Does it to the rows at these places that still match once they are locked. Resolves to how many. */
  act(tx: Queryable, places: readonly Place[]): Promise<number>
}

/**
 * Walks in transactions of up to `chunk` rows. A chunk that can't lock its rows soon, since an open transaction of the application
 * holds one, gives way: if it waited, it would hold up those that want the others, and could deadlock. Then the walk goes on with one
 * row, then two, four … What is held comes last: it is waited for row by row, five seconds in all.
 * @throws DatabaseError `LOCKSTEP_LOCKED` at the end, if something is held still
 */
export async function* walk<Place>(
  database: Database,
  rows: Walk<Place>,
  { chunk, signal }: ChunkSettings,
): AsyncGenerator<Progress, void> {
  signal?.throwIfAborted()
  const { total, last } = await rows.count()
  const told = (done: number): Progress => ({ done, total: Math.max(done, total) })
  yield told(0)
  if (last === null) return
  const held: Place[] = []
  let [done, limit, after]: [number, number, Place | undefined] = [0, chunk, undefined]
  for (;;) {
    signal?.throwIfAborted()
    const places: readonly Place[] = await rows.list(after, last, limit)
    const timeout = places.length > 1 ? LOCK_TIMEOUT : AT_ONCE
    const acted: number | undefined = await patiently(database, timeout, (tx) => rows.act(tx, places))
    if (acted === undefined) {
      limit = 1
      if (places.length > 1) continue
      held.push(...places)
    } else {
      done += acted
      yield told(done)
      if (places.length < limit) break
      limit = Math.min(limit * 2, chunk)
    }
    after = places.at(-1)
  }
  for await (const acted of actOnHeld(database, rows, held, signal)) {
    done += acted
    yield told(done)
  }
}

/** Yields how many, for each row that becomes free. */
async function* actOnHeld<Place>(
  database: Database,
  rows: Walk<Place>,
  held: readonly Place[],
  signal: AbortSignal | undefined,
): AsyncGenerator<number, void> {
  const insistence = insistenceOf(database)
  const waiting = { row: undefined, until: performance.now() + PATIENCE, refusal: () => locked(1), signal }
  let left = 0
  for (const place of held) {
    signal?.throwIfAborted()
    const act = (longestWait: number) =>
      database.transaction((tx) => rows.act(tx, [place]), { begin: waitingAtMost(longestWait) })
    try {
      yield await insistence.insist(act, waiting)
    } catch (error) {
      if (!hasCode(error, 'LOCKSTEP_LOCKED')) throw error
      left += 1
    }
  }
  if (left > 0) throw locked(left)
}

function locked(left: number): DatabaseError {
  return new DatabaseError(
    'LOCKSTEP_LOCKED',
    `transactions that are still open hold ${left} of what was asked for, which is as it was; the rest is done: end them, or try again later`,
  )
}
