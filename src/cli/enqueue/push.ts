import { DataError, UsageError } from '../failure.ts'
import { Interrupted } from '../interruption.ts'
import type { Row } from './row.ts'

const CHUNK_ROWS = 1_000
/** Limits the text of a chunk, since rows may be large. */
const CHUNK_BYTES = 8 * 1024 * 1024

/** Rows of one transaction. */
export interface Chunk {
  readonly rows: readonly Row[]
  /** The number of rows and bytes up to the end of this chunk. */
  readonly endRow: number
  readonly endByte: number
}

/** Skips the first `skip` rows and cuts the rest into chunks. */
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

/** The progress of a run. */
export interface Stored {
  /** Number of rows that this run has stored. */
  rows: number
  /** Number of rows, in push order, that need not be pushed again. */
  upTo: number
}

/**
 * Stores the chunks in order, reading the next one meanwhile.
 * @throws the first error, with the text of `state` added
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
