import type { Attempt, Dead, Entry, Job } from './words.ts'

/** Where payloads go that died. Of equal ones of an id, the smallest score stays, and the headers of the first. */
export class Morgue {
  readonly dead = new Map<string, Dead>()
  #deaths = 0

  bury(
    { id, tenant }: Pick<Job, 'id' | 'tenant'>,
    { payload, score, mark }: Entry,
    error: string,
    attempts: readonly Attempt[],
  ): void {
    const key = `${id} ${payload}`
    const other = this.dead.get(key)
    this.#deaths += 1
    this.dead.set(key, {
      id,
      tenant,
      payload,
      score: Math.min(score, other?.score ?? score),
      mark: other ? other.mark : mark,
      error,
      attempts,
      died: this.#deaths,
    })
  }

  /** Takes out what has died of these ids. */
  empty(ids: readonly string[]): Dead[] {
    const risen = [...this.dead.values()].filter(({ id }) => ids.includes(id))
    for (const { id, payload } of risen) this.dead.delete(`${id} ${payload}`)
    return risen
  }
}
