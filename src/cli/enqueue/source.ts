import { once } from 'node:events'
import { createReadStream, fstatSync, statSync } from 'node:fs'
import { PassThrough, pipeline, type Readable, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { DataError, UsageError } from '../failure.ts'
import { plural } from '../output.ts'
import { quote } from '../suggest.ts'

/** Text to read, unpacked if it was packed. */
export interface Source {
  readonly name: string
  readonly stream: Readable
  /** Bytes of the file as it is stored, packed or not; undefined if unknown. */
  readonly size: number | undefined
  /** Bytes of text read so far. */
  readonly read: number
  /** The position in the file after so many bytes of text; an estimate while a packed file is being read. */
  placeOf(bytes: number): number
}

/**
 * Opens a file, or stdin for `-`, and unpacks gzip. Refuses text that is not UTF-8 instead of storing it mangled.
 * @throws UsageError if the file can't be opened
 */
export async function openSource(file: string, maxBytes = Number.POSITIVE_INFINITY): Promise<Source> {
  const stdin = file === '-'
  const name = stdin ? 'stdin' : quote(file).slice(1, -1)
  if (stdin && process.stdin.isTTY)
    throw new UsageError('stdin is a terminal: name a file, or pipe the rows in')
  const size = stdin ? sizeOfStdin() : sizeOfFile(file)
  if (size !== undefined && size > maxBytes) throw tooLarge(name, maxBytes)
  const bytes = stdin ? openStdin() : createReadStream(file, { highWaterMark: 256 * 1024 })
  const taken = new Counter()
  const text = checked(name, maxBytes)
  if (await isGzip(bytes)) pipeline(bytes, taken, gunzip(name, text), text, () => {})
  else pipeline(bytes, taken, text, () => {})
  return {
    name,
    stream: text,
    size,
    get read() {
      return text.count
    },
    placeOf: (part) => (text.count === 0 ? 0 : (taken.count * part) / text.count),
  }
}

/** Bun's own stream of stdin stops for good once something is put back into it, as the check for gzip does. */
function openStdin(): Readable {
  return pipeline(process.stdin, new PassThrough(), () => {})
}

/** Counts the bytes that pass through. */
class Counter extends Transform {
  count = 0

  override _transform(chunk: Buffer, _encoding: string, done: (error: Error | null, chunk: Buffer) => void) {
    this.count += chunk.length
    done(this.check(chunk), chunk)
  }

  check(_chunk: Buffer): Error | null {
    return null
  }
}

/** Passes UTF-8 through, up to `maxBytes`. */
function checked(name: string, maxBytes: number): Counter {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const text = new Counter()
  const check = (decode: () => unknown) => {
    try {
      decode()
      return null
    } catch {
      return new DataError(
        `${name} is not UTF-8 somewhere before byte ${text.count}: convert it first, for example with iconv -f latin1 -t utf-8`,
      )
    }
  }
  text.check = (chunk) =>
    text.count > maxBytes ? tooLarge(name, maxBytes) : check(() => decoder.decode(chunk, { stream: true }))
  text._flush = (done) => done(check(() => decoder.decode()))
  return text
}

/** Checks the first bytes, which no text begins with, and leaves them in the stream. */
async function isGzip(stream: Readable): Promise<boolean> {
  await once(stream, 'readable')
  const head: Buffer | null = stream.read()
  if (head === null) return false
  stream.unshift(head)
  return head[0] === 0x1f && (head.length === 1 || head[1] === 0x8b)
}

function gunzip(name: string, text: Readable): Transform {
  const unpacking = createGunzip()
  // This listener runs before the pipeline's, so readers of the text get this error.
  unpacking.on('error', (error) =>
    text.destroy(
      new DataError(`${name} can't be unpacked because it is damaged or cut off: ${error.message}`),
    ),
  )
  return unpacking
}

function sizeOfFile(file: string): number | undefined {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found) throw new UsageError(`there is no file ${quote(file)}`)
  if (found.isDirectory()) throw new UsageError(`${quote(file)} is a directory, not a file`)
  return found.isFile() ? found.size : undefined
}

/** Undefined unless stdin is redirected from a file. */
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
    `${name} has more than ${plural(maxBytes / 1024 ** 2, 'MiB')}: --shuffle holds all rows in memory; shuffle the file beforehand, for example with shuf`,
  )
}
