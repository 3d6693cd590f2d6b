import type { Round } from '../store/claim.ts'
import type { FailedRound } from './outcome.ts'
import type { Claimant } from './settlements.ts'

/** Rounds of one batch that share a fate. */
export interface Piece {
  readonly claimant: Claimant
  readonly kind: 'complete' | 'fail' | 'release' | 'crash'
  readonly rounds: readonly Round[]
  readonly failures: readonly FailedRound[]
  /** An earlier try may have been stored though its answer was lost: then a claim that is gone is no news. */
  readonly uncertain: boolean
  /** Tries that found the row locked, and left it at that. */
  readonly skips: number
  /** Tries that waited for the row in vain. */
  readonly waits: number
}

/** Skips after which a row is waited for. Most that are locked are free again a moment later. */
const SKIPS = 2

/** Outcomes that could not be stored yet. One that was held is a piece by itself. */
export class Kept {
  #pieces: Piece[] = []

  get size(): number {
    return this.#pieces.length
  }

  add(piece: Piece): void {
    this.#pieces.push(piece)
  }

  takeAll(): Piece[] {
    return this.#pieces.splice(0)
  }

  /** The one to be waited for next: the one waited for least, so that none queues up behind rows that stay locked. */
  takeNext(): Piece | undefined {
    let next: Piece | undefined
    for (const piece of this.#pieces) {
      if (piece.skips >= SKIPS && (!next || piece.waits < next.waits)) next = piece
    }
    if (next) this.#pieces.splice(this.#pieces.indexOf(next), 1)
    return next
  }
}

/** Pieces that one call can store, by what it needs to know of all of them. */
export function groups(pieces: readonly Piece[]): Piece[][] {
  const found = new Map<string, Piece[]>()
  for (const piece of pieces) {
    const { kind, claimant } = piece
    // What was refused for another reason goes alone: it may be what makes all that goes with it fail.
    const company = piece.skips > 0 ? '' : found.size
    const key = `${kind} ${claimant.processId} ${claimant.served.queueId} ${company}`
    const group = found.get(key)
    if (group) group.push(piece)
    else found.set(key, [piece])
  }
  return [...found.values()]
}
