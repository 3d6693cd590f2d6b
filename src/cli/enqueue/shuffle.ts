import { randomInt } from 'node:crypto'
import { InvalidArgumentError } from 'commander'
import { UsageError } from '../failure.ts'
import { count, plural } from '../output.ts'
import type { Row } from './row.ts'

const MAX_SEED = 2 ** 32

/** An order that can be repeated. `rows`: their number, if an earlier run reported it. */
export interface Seed {
  readonly number: number
  readonly rows?: number
}

export function randomSeed(): Seed {
  return { number: randomInt(MAX_SEED) }
}

/** For --seed: `4711`, or `4711-2100` as an error names it. */
export function seedOption(text: string): Seed {
  const [, number, rows] = /^(\d{1,10})(?:-(\d{1,15}))?$/.exec(text) ?? []
  if (number === undefined || Number(number) >= MAX_SEED)
    throw new InvalidArgumentError('It must be a number below 2^32, or the seed that an error named.')
  return { number: Number(number), rows: rows === undefined ? undefined : Number(rows) }
}

/** Yields all rows in the order of the seed, after checking every one of them. */
export class Shuffle {
  readonly #seed: Seed
  #count = 0

  constructor(seed: Seed) {
    this.#seed = seed
  }

  /** The `--seed` that repeats exactly this order. */
  get told(): string {
    return `${this.#seed.number}-${this.#count}`
  }

  /** @throws UsageError if the number of rows differs from that in the seed */
  async *of(rows: AsyncIterable<Row>, check: (row: Row) => void): AsyncGenerator<Row> {
    const all: Row[] = []
    for await (const row of rows) {
      check(row)
      all.push(row)
    }
    this.#count = all.length
    const { number, rows: before = all.length } = this.#seed
    if (before !== all.length) throw notTheSame(before, all.length, this.#seed)
    shuffle(all, numbersOf(number))
    yield* all
  }
}

/** The Fisher–Yates shuffle. */
function shuffle(all: Row[], next: () => number): void {
  for (let last = all.length - 1; last > 0; last -= 1) {
    const other = Math.floor(next() * (last + 1))
    ;[all[last], all[other]] = [all[other]!, all[last]!]
  }
}

/** Pseudorandom numbers from 0 to 1, always the same for a seed: mulberry32. */
function numbersOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / MAX_SEED
  }
}

function notTheSame(before: number, now: number, { number }: Seed): UsageError {
  return new UsageError(
    `--seed ${number}-${before} is for ${plural(before, 'row')}, but there are ${count(now)}, so --skip would skip other rows. Push all of them, without --seed and --skip: those that still wait merge`,
  )
}
