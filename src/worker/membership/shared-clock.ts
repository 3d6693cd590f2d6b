/** ms from this thread's own clock, which starts with the thread, to the clock that all threads share. */
let offset = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/** ms on a clock that all threads share and that is never set. */
export function monotonicMs(): number {
  return performance.now() + offset
}

/**
 * Sets this thread's clock forward to `now`, which the thread that started this one has read from its own. Node's threads
 * share a clock, so nothing changes there. In Bun and Deno, even `process.hrtime` starts with the thread. This clock stays
 * behind by as long as the message was under way, so a lease that counts by it ends too early rather than too late.
 */
export function catchUp(now: number): void {
  offset += Math.max(0, now - monotonicMs())
}
