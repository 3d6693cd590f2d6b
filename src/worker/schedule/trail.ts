import type { Cursor } from '../../store/claim.ts'
import { isBefore } from './places.ts'

/** Marks that are kept. */
const MOST_MARKS = 1_000

interface Mark {
  readonly cursor: Cursor
  readonly jobs: number
}

/**
 * Where claims of a lane have come by, and after how many jobs. What has been done there since then may be many dead index entries,
 * which no statement can count: so this tells how far one may read.
 */
export class Trail {
  readonly #step: number
  #marks: Mark[] = []

  /** `step`: jobs between two marks, about. */
  constructor(step: number) {
    this.#step = step
  }

  /** A claim has come to `cursor`, past so many jobs. */
  note(cursor: Cursor, jobs: number): void {
    const last = this.#marks.at(-1)
    if (last && !isBefore(last.cursor, cursor)) return
    if (last && last.jobs + jobs <= this.#step)
      this.#marks[this.#marks.length - 1] = { cursor, jobs: last.jobs + jobs }
    else this.#marks.push({ cursor, jobs })
    if (this.#marks.length > MOST_MARKS) this.#marks = this.#marks.filter((_, index) => index % 2 === 1)
  }

  /** How far one may go from there, in so many steps; undefined: to the end. */
  after(from: Cursor, steps = 1): Cursor | undefined {
    const next = this.#marks.findIndex(({ cursor }) => isBefore(from, cursor))
    return next < 0 ? undefined : this.#marks[next + steps - 1]?.cursor
  }

  /** No one asks for what lies before that any more. */
  forgetBefore(from: Cursor): void {
    const at = this.#marks.findIndex(({ cursor }) => isBefore(from, cursor))
    this.#marks = at < 0 ? [] : this.#marks.slice(at)
  }
}
