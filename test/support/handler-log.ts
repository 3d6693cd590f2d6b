import { appendFileSync, closeSync, existsSync, openSync, readSync } from 'node:fs'

/** A round of one id, as a worker process writes it down. The id and fence identify it in all entries. */
interface RoundKey {
  /** The name of the worker process; no two have the same. */
  readonly process: string
  readonly queue: string
  readonly id: string
  readonly fence: number
}

/** A handler begins. Times are in ns of the clock that all processes of a machine share. */
interface Begin extends RoundKey {
  readonly kind: 'begin'
  readonly at: bigint
  /**
   * When the innermost middleware passed the batch on, right before the last check of the lease. Undefined if there is
   * no such middleware, or if anything has waited between it and the handler's first line.
   */
  readonly asked?: bigint
  readonly payloads: readonly unknown[]
}

/** The handler ended: it returned or failed. */
interface End extends RoundKey {
  readonly kind: 'end'
  readonly at: bigint
  readonly returned: boolean
}

/** The worker reports that its completion was stored or refused. */
interface Answer extends RoundKey {
  readonly kind: 'accepted' | 'refused'
  readonly at: bigint
}

/** The worker reports the completion of a round that no handler had, because it was empty. */
interface Empty extends Omit<RoundKey, 'fence'> {
  readonly kind: 'empty'
  readonly at: bigint
}

export type Entry = Begin | End | Answer | Empty

/** Everything that is known about one round of one id. */
export interface Run {
  readonly process: string
  readonly queue: string
  readonly id: string
  readonly fence: number
  readonly payloads: readonly unknown[]
  readonly begin: bigint
  /** Right before the last check of the lease, if known. */
  readonly asked?: bigint
  /** Undefined if its process died first. */
  readonly end: bigint | undefined
  readonly returned: boolean
  readonly accepted: boolean
  readonly refused: boolean
}

type OpenRun = { -readonly [Key in keyof Run]: Run[Key] }

const CHUNK = 1 << 20
const NEWLINE = 10

export function now(): bigint {
  return process.hrtime.bigint()
}

/** Adds entries in one write, so that lines of several processes never mix. */
export function append(file: string, entries: readonly Entry[]): void {
  const lines = entries.map(
    (entry) =>
      `${JSON.stringify(entry, (_, value) => (typeof value === 'bigint' ? String(value) : value))}\n`,
  )
  appendFileSync(file, lines.join(''))
}

/** @throws Error if a line is broken; but the last one may be cut off by the death of its process */
export function read(file: string): Entry[] {
  return [...entriesIn(file)]
}

/** The runs in a file of any size, like `runsOf` its entries, which are never in memory all at once. */
export function readRuns(file: string): Run[] {
  return runsOf(entriesIn(file))
}

/**
 * Combines entries into runs, in the order in which these began.
 * @throws Error if a run has no begin
 */
export function runsOf(entries: Iterable<Entry>): Run[] {
  const runs: OpenRun[] = []
  const byKey = new Map<string, OpenRun>()
  for (const entry of entries) {
    if (entry.kind === 'empty') continue
    if (entry.kind === 'begin') {
      const run = begun(entry)
      // Another entry with the same key is a run of its own, which the check of fences reports.
      byKey.set(keyOf(entry), run)
      runs.push(run)
      continue
    }
    const run = byKey.get(keyOf(entry))
    if (!run)
      throw new Error(`the log has no begin for ${JSON.stringify({ ...entry, at: String(entry.at) })}`)
    add(run, entry)
  }
  return runs.sort((a, b) => compare(a.begin, b.begin))
}

function begun({ process, queue, id, fence, payloads, at, asked }: Begin): OpenRun {
  const open = { end: undefined, returned: false, accepted: false, refused: false }
  return { process, queue, id, fence, payloads, begin: at, ...(asked !== undefined && { asked }), ...open }
}

function add(run: OpenRun, entry: End | Answer): void {
  if (entry.kind === 'end') {
    run.end = entry.at
    run.returned = entry.returned
  } else run[entry.kind] = true
}

/** Text in Postgres has no zero bytes, so the parts can't run together. */
function keyOf({ process, queue, id, fence }: RoundKey): string {
  return `${fence}\0${process}\0${queue}\0${id}`
}

function* entriesIn(file: string): Generator<Entry> {
  let number = 0
  for (const line of linesOf(file)) {
    number += 1
    yield parse(line, number)
  }
}

function parse(line: string, number: number): Entry {
  try {
    const entry = JSON.parse(line)
    entry.at = BigInt(entry.at)
    if (entry.asked !== undefined) entry.asked = BigInt(entry.asked)
    return entry
  } catch (error) {
    throw new Error(`line ${number} of the log is broken: ${line.slice(0, 200)}`, { cause: error })
  }
}

/** Ignores what follows the last newline. */
function* linesOf(file: string): Generator<string> {
  if (!existsSync(file)) return
  const descriptor = openSync(file, 'r')
  try {
    const chunk = Buffer.alloc(CHUNK)
    let rest: Buffer = Buffer.alloc(0)
    for (let size = readSync(descriptor, chunk); size > 0; size = readSync(descriptor, chunk)) {
      const bytes = Buffer.concat([rest, chunk.subarray(0, size)])
      const end = bytes.lastIndexOf(NEWLINE)
      rest = bytes.subarray(end + 1)
      if (end >= 0) yield* bytes.toString('utf8', 0, end).split('\n')
    }
  } finally {
    closeSync(descriptor)
  }
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}
