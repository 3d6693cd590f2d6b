import { isTravelling, type Piece, takePieces } from './piece.ts'

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

  /** It is waited for as soon as there is room, and not tried in other ways meanwhile. */
  addToWaitFor(piece: Piece): void {
    this.add({ ...piece, skips: SKIPS })
  }

  takeAll(): Piece[] {
    return this.#pieces.splice(0)
  }

  /** All that may be tried in another way than to be waited for. */
  takeToTry(): Piece[] {
    const isToTry = (piece: Piece) => piece.skips < SKIPS || isTravelling(piece)
    return this.#take(this.#pieces.filter(isToTry))
  }

  /**
   * What is to be waited for next, in one transaction: the one waited for least, so that none queues up behind rows that stay
   * locked. Deaths are many at a time, as long as nothing was in their way.
   */
  takeNext(): Piece[] {
    let next: Piece | undefined
    for (const piece of this.#pieces) {
      if (piece.skips >= SKIPS && (!next || piece.waits < next.waits)) next = piece
    }
    if (!next) return []
    const company = companyOf(next)
    const likes = company ? this.#pieces.filter((piece) => companyOf(piece) === company) : [next]
    return this.#take(takePieces(likes))
  }

  #take(pieces: Piece[]): Piece[] {
    const taken = new Set(pieces)
    this.#pieces = this.#pieces.filter((piece) => !taken.has(piece))
    return pieces
  }
}

/** Deaths with the same are stored together; undefined: alone. */
function companyOf({ kind, claimant, queueId, alone, waits }: Piece): string | undefined {
  return kind === 'die' && !alone && waits === 0 ? `${claimant.processId} ${queueId}` : undefined
}
