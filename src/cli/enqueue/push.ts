import { DataError, UsageError } from '../failure.ts'
import { Interrupted } from '../interruption.ts'
import type { Row } from './row.ts'

const CHUNK_ROWS = 1_000
/** Of text: rows may be large. */
const CHUNK_BYTES = 8 * 1024 * 1024

/** Rows of one transaction. */
export interface Chunk {
  readonly rows: readonly Row[]
  /** How many rows come before the end of this one, and how many bytes. */
  readonly endRow: number
  readonly endByte: number
}

/** Cuts rows into chunks, leaving out the first `skip`. */
export async function* chunksOf(rows: AsyncIterable<Row>, skip: number): AsyncGenerator<Chunk> {
  let chunk: Row[] = []
  let [endRow, endByte, bytes] = [0, 0, 0]
  for await (const row of rows) {
    endRow += 1
    endByte += row.bytes
    if (endRow <= skip) continue
    chunk.push(row)
    bytes += row.bytes
    if (chunk.length < CHUNK_ROWS && bytes < CHUNK_BYTES) continue
    yield { rows: chunk, endRow, endByte }
    chunk = []
    bytes = 0
  }
  if (chunk.length > 0) yield { rows: chunk, endRow, endByte }
}

/** How far a run has come. */
export interface Stored {
  /** Rows this run has stored. */
  rows: number
  /** Rows of the file, in the order in which they are pushed, that need not be pushed again. */
  upTo: number
}

/**
 * Stores chunk after chunk, in order, while the next one is being read.
 * @throws the error that came first, with what `state` says of what is stored
 */
export async function pushAll(
  chunks: AsyncIterable<Chunk>,
  push: (chunk: Chunk) => Promise<unknown>,
  onStored: (rows: number, chunk: Chunk) => void,
  state: (stored: Stored) => string,
): Promise<number> {
  const stored: Stored = { rows: 0, upTo: 0 }
  let flight: Promise<unknown> = Promise.resolve()
  const launch = async (chunk: Chunk) => {
    await push(chunk)
    stored.rows += chunk.rows.length
    stored.upTo = chunk.endRow
    onStored(stored.rows, chunk)
  }
  try {
    for await (const chunk of chunks) {
      await flight
      flight = launch(chunk)
      flight.catch(() => {})
    }
    await flight
  } catch (error) {
    const first = await flight.then(
      () => error,
      (earlier) => earlier,
    )
    throw failureWith(first, state(stored))
  }
  return stored.rows
}

function failureWith(error: unknown, state: string): Error {
  const message = `${error instanceof Error ? error.message : error}\n${state}`
  if (error instanceof Interrupted) return new Interrupted(error.signal, message, { cause: error })
  const Failure = error instanceof UsageError ? UsageError : DataError
  return new Failure(message, { cause: error })
}
