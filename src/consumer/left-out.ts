/** Payloads that a claimed job was handed over without: they are counted when its completion removes them. */
const leftOut = new WeakMap<object, number>()

export function noteLeftOut(job: object, payloads: number): void {
  leftOut.set(job, payloads)
}

/** 0 for a claim that is told by its queue, id and fence alone: what expired of it goes uncounted. */
export function leftOutOf(claim: object): number {
  return leftOut.get(claim) ?? 0
}
