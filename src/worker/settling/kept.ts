import { buries, isTravelling, type Piece, takePieces } from './piece.ts'

/** After this many skips, we wait for a row. Most locked rows are free again a moment later. */
const SKIPS = 2

/** Outcomes that could not be stored yet. A round whose row was locked is a piece by itself. */
export class Kept {
  #pieces: Piece[] = []

  get size(): number {
    return this.#pieces.length
  }

  add(piece: Piece): void {
    this.#pieces.push(piece)
  }

  /** Adds a piece that is waited for as soon as there is room, and not tried in other ways meanwhile. */
  addToWaitFor(piece: Piece): void {
    this.add({ ...piece, skips: SKIPS })
  }

  takeAll(): Piece[] {
    return this.#pieces.splice(0)
  }

  /** Takes all pieces that may be tried in another way than by waiting. */
  takeToTry(): Piece[] {
    const isToTry = (piece: Piece) => piece.skips < SKIPS || isTravelling(piece)
    return this.#take(this.#pieces.filter(isToTry))
  }

  /**
   * Takes what to wait for next, in one transaction: the piece waited for least often, so that none queues up behind rows
   * that stay locked. Many deaths go together, as long as nothing was in their way.
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

/** Deaths with the same value are stored together; undefined: alone. */
function companyOf(piece: Piece): string | undefined {
  const { kind, claimant, queueId, alone, waits } = piece
  return buries(piece) && !alone && waits === 0 ? `${kind} ${claimant.processId} ${queueId}` : undefined
}
