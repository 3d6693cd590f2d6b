import { createReadStream, fstatSync, statSync } from 'node:fs'
import { pipeline, type Readable, Transform } from 'node:stream'
import { DataError, UsageError } from '../failure.ts'
import { plural } from '../output.ts'
import { quote } from '../suggest.ts'

/** Bytes to read, with their number where it is known. */
export interface Source {
  readonly name: string
  readonly stream: Readable
  readonly size: number | undefined
  /** Bytes read so far. */
  readonly read: number
}

/**
 * Opens a file, or stdin for `-`. What is not UTF-8 is refused instead of being stored mangled.
 * @throws UsageError where the file can't be opened
 */
export function openSource(file: string, maxBytes = Number.POSITIVE_INFINITY): Source {
  const stdin = file === '-'
  const name = stdin ? 'stdin' : quote(file).slice(1, -1)
  if (stdin && process.stdin.isTTY)
    throw new UsageError('stdin is a terminal: name a file, or pipe the rows in')
  const size = stdin ? sizeOfStdin() : sizeOfFile(file)
  if (size !== undefined && size > maxBytes) throw tooLarge(name, maxBytes)
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let read = 0
  const checked = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      read += chunk.length
      done(
        read > maxBytes ? tooLarge(name, maxBytes) : check(() => decoder.decode(chunk, { stream: true })),
        chunk,
      )
    },
    flush: (done) => done(check(() => decoder.decode())),
  })
  const check = (decode: () => unknown) => {
    try {
      decode()
      return null
    } catch {
      return new DataError(
        `${name} is not UTF-8, somewhere before byte ${read}: convert it first, such as with iconv -f latin1 -t utf-8`,
      )
    }
  }
  const bytes = stdin ? process.stdin : createReadStream(file, { highWaterMark: 256 * 1024 })
  const stream = pipeline(bytes, checked, () => {})
  return {
    name,
    stream,
    size,
    get read() {
      return read
    },
  }
}

function sizeOfFile(file: string): number | undefined {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found) throw new UsageError(`there is no file ${quote(file)}`)
  if (found.isDirectory()) throw new UsageError(`${quote(file)} is a directory, not a file`)
  return found.isFile() ? found.size : undefined
}

/** Known where it was redirected from a file. */
function sizeOfStdin(): number | undefined {
  try {
    const found = fstatSync(0)
    return found.isFile() ? found.size : undefined
  } catch {
    return undefined
  }
}

function tooLarge(name: string, maxBytes: number): UsageError {
  return new UsageError(
    `${name} has more than ${plural(maxBytes / 1024 ** 2, 'MiB')}: --shuffle holds all rows in memory; shuffle the file beforehand, such as with shuf`,
  )
}
