import { setTimeout as sleep } from 'node:timers/promises'

/** ms from each call until the time to which it resolves, one after the other, with pauses in which all goes idle. */
export async function oneByOne(count: number, call: (seq: number) => Promise<number>): Promise<number[]> {
  const times: number[] = []
  for (let seq = 0; seq < count; seq += 1) {
    const calledAt = performance.now()
    times.push((await call(seq)) - calledAt)
    await sleep(10 + (seq % 10))
  }
  return times
}

/**
 * Calls with the numbers from `from` up to but excluding `to`, evenly at `rate` a second. It waits for no answer, so a
 * slow call does not hold up later ones. A call that fails ends the process, and with it the run.
 */
export async function pace(
  rate: number,
  { from, to }: { readonly from: number; readonly to: number },
  call: (seq: number) => Promise<unknown>,
): Promise<void> {
  const startedAt = performance.now()
  let next = from
  while (next < to) {
    const due = Math.min(to, from + 1 + Math.floor(((performance.now() - startedAt) * rate) / 1000))
    for (; next < due; next += 1) void call(next)
    await sleep(1)
  }
}
