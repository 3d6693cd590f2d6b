/** Enough to keep two processors busy, most of the time with work that the judge asks for. */
export const EVENTS_PER_SECOND = 1_000
/** ms; even few updates must take this long, since a worker has to be killed in the middle. */
const SHORTEST = 3_000
const LONGEST = 25_000

/** ms over which the updates are spread. */
export function sendingTime(events: number): number {
  return Math.min(LONGEST, Math.max(SHORTEST, (events / EVENTS_PER_SECOND) * 1_000))
}

/** ms after which sending stops: a machine that is too busy does not send the rest. */
export const SENDING_LIMIT = 30_000
