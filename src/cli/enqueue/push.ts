import { DataError, Interrupted } from '../failure.ts'
import { plural } from '../output.ts'
import type { Row } from './row.ts'

const CHUNK_ROWS = 1_000
/** Of text as read: rows may be large. */
const CHUNK_BYTES = 8 * 1024 * 1024

/** Rows of one transaction. `first` is the number of the first of them among the file's rows, from 0. */
export interface Chunk {
  readonly first: number
  readonly rows: readonly Row[]
}

/** Cuts rows into chunks, leaving out the first `skip`. `read` tells how many bytes have been read so far. */
export async function* chunksOf(
  rows: AsyncIterable<Row> | Iterable<Row>,
  skip: number,
  read: () => number,
): AsyncGenerator<Chunk> {
  let chunk: Row[] = []
  let number = 0
  let begun = read()
  for await (const row of rows) {
    number += 1
    if (number <= skip) continue
    chunk.push(row)
    if (chunk.length < CHUNK_ROWS && read() - begun < CHUNK_BYTES) continue
    yield { first: number - chunk.length, rows: chunk }
    chunk = []
    begun = read()
  }
  if (chunk.length > 0) yield { first: number - chunk.length, rows: chunk }
}

/**
 * Stores chunk after chunk, in order, while the next one is being read. Whatever fails, the error says how many
 * rows of the file are stored.
 */
export async function pushAll(
  chunks: AsyncIterable<Chunk>,
  push: (chunk: Chunk) => Promise<unknown>,
  onStored: (rows: number) => void,
): Promise<number> {
  let stored = 0
  let next = 0
  let flight: Promise<unknown> = Promise.resolve()
  const launch = async (chunk: Chunk) => {
    await push(chunk)
    stored += chunk.rows.length
    next = chunk.first + chunk.rows.length
    onStored(stored)
  }
  try {
    for await (const chunk of chunks) {
      await flight
      flight = launch(chunk)
      flight.catch(() => {})
    }
    await flight
  } catch (error) {
    const failed = await flight.then(
      () => error,
      (earlier) => earlier,
    )
    throw failureAfter(failed, stored, next)
  }
  return stored
}

function failureAfter(error: unknown, stored: number, next: number): Error {
  const message = error instanceof Error ? error.message : String(error)
  const state =
    stored === 0
      ? 'Nothing was stored.'
      : `Stored: ${plural(stored, 'row')}. Go on with --skip ${next}; a row pushed twice merges while it waits.`
  const options = { cause: error }
  if (error instanceof Interrupted) return new Interrupted(`${message}\n${state}`, options)
  return new DataError(`${message}\n${state}`, options)
}
