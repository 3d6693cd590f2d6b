import { appendFileSync, existsSync, readFileSync } from 'node:fs'

/** A round of one id, as a worker process writes it down. Its id and fence name it in all entries. */
interface RoundKey {
  /** Of the worker process; no two have the same. */
  readonly process: string
  readonly queue: string
  readonly id: string
  readonly fence: number
}

/** A handler begins. Times are in ns of the clock that all processes of a machine share. */
interface Begin extends RoundKey {
  readonly kind: 'begin'
  readonly at: bigint
  readonly payloads: readonly unknown[]
}

/** It ended: it returned, or failed. */
interface End extends RoundKey {
  readonly kind: 'end'
  readonly at: bigint
  readonly returned: boolean
}

/** The worker says that its completion is stored, or was refused. */
interface Answer extends RoundKey {
  readonly kind: 'accepted' | 'refused'
  readonly at: bigint
}

/** It says so of a round that no handler had: there was nothing in it. */
interface Empty extends Omit<RoundKey, 'fence'> {
  readonly kind: 'empty'
  readonly at: bigint
}

export type Entry = Begin | End | Answer | Empty

/** All that is known of one round of one id. */
export interface Run {
  readonly process: string
  readonly queue: string
  readonly id: string
  readonly fence: number
  readonly payloads: readonly unknown[]
  readonly begin: bigint
  /** Undefined where its process died first. */
  readonly end: bigint | undefined
  readonly returned: boolean
  readonly accepted: boolean
}

export function now(): bigint {
  return process.hrtime.bigint()
}

/** Adds entries in one write, so that lines of several processes never mix. */
export function append(file: string, entries: readonly Entry[]): void {
  const lines = entries.map((entry) => `${JSON.stringify({ ...entry, at: String(entry.at) })}\n`)
  appendFileSync(file, lines.join(''))
}

export function read(file: string): Entry[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => {
    const entry = JSON.parse(line)
    return { ...entry, at: BigInt(entry.at) }
  })
}

/** Entries put together, in the order of their begins. */
export function runsOf(entries: readonly Entry[]): Run[] {
  const runs = new Map<string, { -readonly [Key in keyof Run]: Run[Key] }>()
  const key = ({ process, queue, id, fence }: RoundKey) => JSON.stringify([process, queue, id, fence])
  for (const entry of entries) {
    if (entry.kind === 'empty') continue
    if (entry.kind === 'begin') {
      const { kind: _, at, ...rest } = entry
      runs.set(key(entry), { ...rest, begin: at, end: undefined, returned: false, accepted: false })
      continue
    }
    const run = runs.get(key(entry))
    if (!run) throw new Error(`the log has no begin for ${key(entry)}`)
    if (entry.kind === 'end') Object.assign(run, { end: entry.at, returned: entry.returned })
    if (entry.kind === 'accepted') run.accepted = true
  }
  return [...runs.values()].sort((a, b) => compare(a.begin, b.begin))
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}
