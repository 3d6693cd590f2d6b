import type { PushedJob } from '../../store/push.ts'
import { UsageError } from '../failure.ts'
import { onInterruption } from '../interruption.ts'
import { count, duration, plural, write, writeJson } from '../output.ts'
import { type Progress, startProgress } from '../progress.ts'
import type { Input } from './input.ts'
import { type Chunk, chunksOf, pushAll, type Stored } from './push.ts'
import { type Columns, inTermsOfTheFile, jobOf, type Row } from './row.ts'
import { randomSeed, type Seed, Shuffle } from './shuffle.ts'
import { openSource, type Source } from './source.ts'

const MAX_SHUFFLED_BYTES = 256 * 1024 * 1024

export interface RunFlags extends Columns {
  readonly skip: number
  readonly shuffle?: boolean
  readonly seed?: Seed
  readonly dryRun?: boolean
  readonly json?: boolean
}

/** Stores jobs in one transaction. Resolves to how many of them merged with others; undefined if unknown. */
export type Store = (jobs: readonly PushedJob[]) => Promise<number | undefined>

/** Pushes the rows of a file, or checks them in a dry run, and reports the result. */
export class Run {
  readonly #flags: RunFlags
  readonly #columns: Columns
  readonly #shuffle: Shuffle | undefined
  readonly #store: Store
  readonly #interruption = new AbortController()
  #merged: number | undefined = 0

  /** @throws UsageError if --skip would skip other rows than those stored before */
  constructor(flags: RunFlags, store: Store) {
    const { id, score, performIn, expiresIn, lane, tenant, payload, headers, shuffle, seed, skip } = flags
    if (shuffle && skip > 0 && !seed) {
      throw new UsageError(
        '--skip after --shuffle needs the --seed that the error named: in another order it would skip other rows',
      )
    }
    this.#flags = flags
    this.#columns = { id, score, performIn, expiresIn, lane, tenant, payload, headers }
    this.#shuffle = shuffle ? new Shuffle(seed ?? randomSeed()) : undefined
    this.#store = store
  }

  /** @param verb what the report says was done to the rows */
  async of(input: Input, verb: string): Promise<void> {
    const started = performance.now()
    const source = await openSource(input.file, this.#shuffle && MAX_SHUFFLED_BYTES)
    const endListening = onInterruption((reason) => {
      this.#interruption.abort(reason)
      source.stream.destroy(reason)
    })
    const progress = startProgress({ label: source.name, noun: 'rows', total: source.size })
    try {
      const rows = await this.#push(input, source, progress)
      progress.update(source.size ?? 0, rows)
      progress.stop()
      this.#report(source.name, rows, performance.now() - started, verb)
    } finally {
      progress.stop()
      endListening()
    }
  }

  #push(input: Input, source: Source, progress: Progress): Promise<number> {
    const rows = input.rows(source, this.#columns)
    const ordered = this.#shuffle?.of(rows, (row) => this.#check(row)) ?? rows
    return pushAll(
      chunksOf(ordered, this.#flags.skip),
      (chunk) => this.#storeChunk(chunk),
      (rows, { endByte }) => progress.update(source.placeOf(endByte), rows),
      (stored) => this.#state(stored),
    )
  }

  async #storeChunk({ rows }: Chunk): Promise<void> {
    this.#interruption.signal.throwIfAborted()
    try {
      const merged = await this.#store(rows.map((row, index) => jobOf(row, this.#columns, index)))
      this.#merged = merged === undefined || this.#merged === undefined ? undefined : this.#merged + merged
    } catch (error) {
      throw inTermsOfTheFile(error, rows, this.#columns)
    }
  }

  /** @throws the DataError that storing the row would throw */
  #check(row: Row): void {
    try {
      jobOf(row, this.#columns, 0)
    } catch (error) {
      throw inTermsOfTheFile(error, [row], this.#columns)
    }
  }

  /** Goes at the end of an error message. */
  #state({ rows, upTo }: Stored): string {
    const { dryRun, skip } = this.#flags
    if (dryRun) {
      const good = rows > 0 ? `Checked and valid: ${plural(rows, 'row')}. ` : ''
      return `${good}Nothing was stored: this was a dry run.`
    }
    if (rows === 0) return skip > 0 ? 'Nothing more was stored.' : 'Nothing was stored.'
    const order = this.#shuffle ? `--seed ${this.#shuffle.told} ` : ''
    return `Stored: ${plural(rows, 'row')}. Continue with ${order}--skip ${upTo}; a row pushed twice merges while it waits.`
  }

  #report(name: string, rows: number, ms: number, verb: string): void {
    const { json, dryRun } = this.#flags
    const perSecond = Math.round((rows * 1000) / Math.max(ms, 1))
    const stored = dryRun ? 0 : rows
    const merged = this.#merged ?? null
    if (json) writeJson({ rows, stored, merged, seconds: ms / 1000, perSecond })
    else if (rows === 0) write(this.#nothing(name))
    else {
      const news = merged ? `, ${count(merged)} of them merged,` : ''
      const time = `in ${duration(ms)} (${plural(perSecond, 'row')} per second)`
      write(`${plural(rows, 'row')} ${verb}${news} ${time}${dryRun ? ': all valid, nothing was stored' : ''}`)
    }
  }

  #nothing(name: string): string {
    const { skip, dryRun } = this.#flags
    const after = skip > 0 ? ` after the first ${count(skip)}` : ''
    return `${name} has no rows${after}: nothing ${dryRun ? 'to check' : 'was stored'}`
  }
}
