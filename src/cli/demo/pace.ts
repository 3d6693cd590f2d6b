/** Updates a second. They fill a machine of two processors, most of it with what the judge wants to know. */
export const EVENTS_PER_SECOND = 1_000
/** ms it takes at least, however few they are: somebody has to be killed in the middle. */
const SHORTEST = 3_000
const LONGEST = 25_000

/** ms over which so many updates are spread. */
export function sendingTime(events: number): number {
  return Math.min(LONGEST, Math.max(SHORTEST, (events / EVENTS_PER_SECOND) * 1_000))
}

/** ms after which nothing more is sent: on a machine that is too busy the rest is left out. */
export const SENDING_LIMIT = 30_000
