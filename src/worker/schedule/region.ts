import type { Cursor } from '../../store/claim.ts'
import type { WaitingJob } from '../../store/limits.ts'
import { first, isBefore } from './places.ts'
import { Trail } from './trail.ts'

/** Jobs that a look sifts in a step, about. */
const STEP = 1_000
/** What is known of a tenant in a part of a lane that a look sifts. */
export interface HeldTenant {
  /** The place before its first job. */
  readonly start: Cursor
  readonly jobs: readonly WaitingJob[]
  /** Where others of its jobs may follow that a claim will find. */
  readonly rest: Cursor | undefined
}

/** What a look has to sift for jobs that were committed late, and what it knows there. */
export interface Region {
  readonly from: Cursor
  readonly to: Cursor
  /** Whether nothing of the lane is left to sift behind that. */
  readonly isLast: boolean
  readonly held: ReadonlyMap<string, HeldTenant>
}

/** How far a lane is sifted between the first of what limits keep waiting there and its cursor. */
export class SiftedRegion {
  readonly #trail: Trail
  /** undefined: from its beginning on. */
  #sifted: Cursor | undefined

  /** `step`: jobs that a look sifts in a step, about. */
  constructor(step = STEP) {
    this.#trail = new Trail(step)
  }

  /** What a look sifts next in so many steps, up to `to`. */
  next(held: Region['held'], to: Cursor, steps: number): Region | undefined {
    const from = Array.from(held.values(), ({ start }) => start).reduce(first, to)
    this.#trail.forgetBefore(from)
    const rest = this.#sifted && isBefore(from, this.#sifted) ? this.#sifted : from
    if (isBefore(rest, to)) {
      const piece = first(this.#trail.after(rest, steps) ?? to, to)
      return { from: rest, to: piece, isLast: !isBefore(piece, to), held }
    }
    this.#sifted = undefined
    return undefined
  }

  /** A look has sifted up to `to`, or to the end. */
  sifted(to: Cursor | undefined): void {
    this.#sifted = to
  }

  /** A claim has come to `cursor`, past so many jobs. */
  note(cursor: Cursor, jobs: number): void {
    this.#trail.note(cursor, jobs)
  }

  /** How far a claim may go at once that goes back to `from`. */
  upto(from: Cursor): number | undefined {
    return this.#trail.after(from)?.after ?? undefined
  }
}
