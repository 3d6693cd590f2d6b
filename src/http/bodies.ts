import { Problem } from '../serving/problem.ts'

/** Bytes; in memory, bodies take some four times as much until they are stored. */
export const MOST_BODIES = 128 * 1024 * 1024

/**
 * The bytes of bodies that requests under way have brought. They count as they come, not as they are announced: otherwise a client
 * that sends nothing could keep others out.
 */
export class Bodies {
  readonly #most: number
  /** The first that came in front. */
  readonly #underWay = new Map<Intake, number>()
  #bytes = 0

  constructor(most: number) {
    this.#most = most
  }

  /** For the body of one request. Whoever takes it closes it once the request is answered. */
  open(): Intake {
    return new Intake(this)
  }

  /**
   * The body that came first is always taken, so that one larger than the bound is taken at some time, and some request gets on.
   * @throws Problem
   */
  add(intake: Intake, bytes: number): void {
    this.#bytes += bytes
    this.#underWay.set(intake, (this.#underWay.get(intake) ?? 0) + bytes)
    const [first] = this.#underWay.keys()
    if (this.#bytes > this.#most && intake !== first)
      throw new Problem(503, 'LOCKSTEP_BUSY', 'too many bytes are under way here: send it again', {
        'retry-after': '1',
      })
  }

  remove(intake: Intake): void {
    this.#bytes -= this.#underWay.get(intake) ?? 0
    this.#underWay.delete(intake)
  }
}

export class Intake {
  readonly #bodies: Bodies

  constructor(bodies: Bodies) {
    this.#bodies = bodies
  }

  /** @throws Problem if that is too much beside others */
  add(bytes: number): void {
    this.#bodies.add(this, bytes)
  }

  close(): void {
    this.#bodies.remove(this)
  }
}
